"""What other engines read: a Spark data source, and how a weir's folder is read for them, batch by batch."""
