"""The fit finds weights that were planted, and a kept fit is believed only where it was made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from weir.errors import OpenError
from weir.index import by_batch
from weir.index.bands import band_costs, band_strategies
from weir.index.bands.band_index import BandIndex
from weir.index.joining.kinds import DEFAULT
from weir.index.joins.join_costs import HOTSPOT, N_STRATEGIES, N_TERMS, SELECT_FIRST, SSI, TERMS
from weir.index.joins.join_strategies import NAMES as STRATEGIES
from weir.runtime import band_calibration, batch_calibration, calibration, fits, measuring
from weir.runtime.calibration import Calibration, JoinWorkload, calibrate, draw, fit_terms, load, main, measure, store
from weir.runtime.fits import Fit, fit_each
from weir.store.files import LocalFiles, ObjectFiles, open_files

BAND_STRATEGIES = band_strategies.NAMES[: band_costs.N_STRATEGIES]

TINY_BANDS = (
    band_calibration.BandWorkload(300, 400, True, 1e-3, 0.1, 5, 0.5, 5_000, False),
    band_calibration.BandWorkload(200, 300, True, 1e-3, 0.0, 0, 0.0, 10**9, False),
    band_calibration.BandWorkload(300, 2_000, False, 1e-3, 0.1, 5, 0.5, 10**6, True),
    band_calibration.BandWorkload(900, 2_000, False, 1e-2, 0.0, 0, 0.0, 10**5, False),
)
TINY_BATCHES = tuple(batch_calibration.BatchWorkload(n, *kind) for n in (300, 2_000) for kind in ((1, 1.0), (30, 0.5)))
TINY = (JoinWorkload(300, 500, 0.5, 0.1, 0.01, True, 10**6), JoinWorkload(900, 2_000, 0.1, 0.02, 0.001, False, 10**4))


def planted(seed: int, noise: float, n: int = 600) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Term values, costs and the weights behind them: four terms a strategy, of very different sizes."""
    rng = np.random.default_rng(seed)
    values = np.exp(rng.uniform(0, 8, (n, N_STRATEGIES, N_TERMS)))
    values[:, :, 0] = 1.0
    terms = np.zeros((N_STRATEGIES, N_TERMS))
    for s in range(N_STRATEGIES):
        chosen = rng.choice(np.arange(1, N_TERMS), 3, replace=False)
        terms[s, chosen] = np.exp(rng.uniform(-2, 2, 3))
    terms[:, 0] = 50.0
    exact = np.einsum("nst,st->ns", values, terms)
    return values, exact * np.exp(rng.normal(0, noise, exact.shape)), terms


def test_weights_are_found_and_absent_terms_are_left_out() -> None:
    values, ns, terms = planted(3, noise=0.0)
    fit = fit_terms(values, ns)
    alone = np.arange(N_STRATEGIES) != HOTSPOT
    assert fit.terms[alone] == pytest.approx(terms[alone], rel=1e-6, abs=1e-6)
    assert fit.errors[alone] == pytest.approx(np.zeros(N_STRATEGIES - 1), abs=1e-9)
    assert fit.samples == len(ns)


def test_hotspot_has_the_weights_of_its_parts() -> None:
    values, _, terms = planted(7, noise=0.0)
    of = {name: k for k, name in enumerate(TERMS)}
    terms[[SSI, SELECT_FIRST]] = 0.0
    terms[[SSI, SELECT_FIRST], of["event"]] = 50.0
    terms[SSI, [of["visits"], of["reached"], of["touched"]]] = 3.0, 80.0, 2.0
    terms[SELECT_FIRST, [of["lookups"], of["turns"], of["touched"]]] = 1.5, 20.0, 0.7
    hotspot = np.zeros(N_TERMS)
    hotspot[of["event"]] = 400.0
    hotspot[[of["visits"], of["reached"], of["touched"]]] = 2 * 3.0, 2 * 80.0, 2 * 2.0  # ssi on the hotspots
    hotspot[[of["lookups"], of["turns"], of["selected"]]] = 1.25 * 1.5, 1.25 * 20.0, 1.25 * 0.7  # the scattered boxes
    terms[HOTSPOT] = hotspot
    fit = fit_terms(values, np.einsum("nst,st->ns", values, terms))
    assert fit.terms == pytest.approx(terms, rel=1e-6, abs=1e-6)
    assert bool(np.all(fit.shows()[terms > 0]))


def test_intervals_contain_the_truth_about_as_often_as_they_say() -> None:
    inside = total = 0
    for seed in range(40):
        values, ns, terms = planted(seed, noise=0.1)
        fit = fit_terms(values, ns, columns=terms > 0)
        assert bool(np.all(fit.kept == (terms > 0)))
        within = (fit.low <= terms * np.exp(0.1**2 / 2)) & (terms * np.exp(0.1**2 / 2) <= fit.high)
        inside += int(within[terms > 0].sum())
        total += int((terms > 0).sum())
    assert 0.90 < inside / total <= 0.99


def test_no_weight_is_negative_and_every_kept_one_shows() -> None:
    for seed in range(10):
        values, ns, _ = planted(seed, noise=0.3, n=80)
        fit = fit_terms(values, ns)
        assert bool(np.all(fit.terms >= 0)), f"seed {seed}"
        assert bool(np.all(fit.shows() == fit.kept)), f"seed {seed}"
        assert bool(np.all(fit.terms[~fit.kept] == 0)), f"seed {seed}"


def test_a_term_that_is_only_noise_is_said_to_contain_zero() -> None:
    values, ns, terms = planted(6, noise=0.2)
    absent = int(np.flatnonzero(terms[2] == 0)[0])
    columns = terms > 0
    columns[2, absent] = True
    fit = fit_terms(values, ns, columns)
    assert fit.kept[2, absent]
    assert not fit.shows()[2, absent], "one seed in twenty would fail here"
    line = next(text for text in fit.table().splitlines() if text.split()[:2] == [STRATEGIES[2], TERMS[absent]])
    assert line.endswith("contains 0")


def test_relative_errors_count() -> None:
    """A dear event that is off by 20 % must not spoil the weights of cheap ones."""
    x = np.zeros((200, N_STRATEGIES, N_TERMS))
    x[:, :, 0] = 1.0
    x[:, :, 3] = np.exp(np.linspace(0, 12, 200))[:, None]
    ns = 100.0 + 0.5 * x[:, :, 3]
    ns[-1] *= 1.2
    fit = fit_terms(x, ns)
    assert fit.terms[:, 0] == pytest.approx(np.full(N_STRATEGIES, 100.0), rel=0.05)
    assert fit.terms[:, 3] == pytest.approx(np.full(N_STRATEGIES, 0.5), rel=0.05)


@pytest.mark.parametrize(("freedom", "expected"), [(5, 2.571), (10, 2.228), (30, 2.042), (200, 1.972), (10**6, 1.960)])
def test_quantiles_of_student(freedom: int, expected: float) -> None:
    assert fits._t_quantile(freedom) == pytest.approx(expected, rel=0.01)


# ── keeping ──────────────────────────────────────────────────────────────────────────────────────────


def some_fit(weight: float = 2.0) -> Calibration:
    return Calibration(
        the_same(weight, STRATEGIES, TERMS),
        the_same(weight + 1, BAND_STRATEGIES, band_costs.TERMS),
        the_same(weight + 2, by_batch.NAMES, by_batch.TERMS),
    )


def the_same(weight: float, strategies: tuple[str, ...], names: tuple[str, ...]) -> Fit:
    terms = np.full((len(strategies), len(names)), weight)
    return Fit(terms, terms - 1, terms + 1, terms > 0, np.zeros(len(strategies)), 10, strategies, names)


def the_document(folder: Path) -> Path:
    (found,) = (folder / "cache" / "folded").iterdir()
    return found


def test_what_is_stored_is_loaded(tmp_path: Path) -> None:
    for files in (LocalFiles(tmp_path), open_files("memory://weir")):
        assert load(files) is DEFAULT
        store(files, some_fit(2.5))
        found = load(files)
        assert np.array_equal(found.terms, np.full((N_STRATEGIES, N_TERMS), 2.5))
        assert np.array_equal(found.bands, np.full((band_costs.N_STRATEGIES, band_costs.N_TERMS), 3.5))
        assert np.array_equal(found.batches, np.full(by_batch.WEIGHTS.shape, 4.5))
        assert found.terms.flags == DEFAULT.terms.flags, "kernels are compiled once"
        assert found.bands.flags == DEFAULT.bands.flags
    assert isinstance(files, ObjectFiles)


def test_the_newest_fit_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = LocalFiles(tmp_path)
    for now in (1_000, 2_000, 3_000, 4_000):
        monkeypatch.setattr(calibration.time, "time", lambda now=now: float(now))
        store(files, some_fit(now))
    assert load(files).terms[0, 0] == 4_000
    assert len(list((tmp_path / "cache" / "folded").iterdir())) <= 3


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "stranger"])
def test_a_damaged_fit_is_ignored_and_may_be_made_again(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = LocalFiles(tmp_path)
    monkeypatch.setattr(calibration.time, "time", lambda: 1_000.0)
    store(files, some_fit())
    path = the_document(tmp_path)
    data = path.read_bytes()
    flipped = bytes([*data[:40], data[40] ^ 1, *data[41:]])
    path.write_bytes({"cut": data[:-7], "flipped": flipped, "empty": b"", "stranger": b"no cache of ours"}[damage])
    assert load(files) is DEFAULT
    monkeypatch.setattr(calibration.time, "time", lambda: 1_001.0)
    store(files, some_fit(3.0))
    assert load(files).terms[0, 0] == 3.0


@pytest.mark.parametrize("change", ["source_hash", "cpu_model"])
def test_a_fit_of_other_kernels_or_another_processor_is_ignored(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = LocalFiles(tmp_path)
    store(files, some_fit())
    assert load(files) is not DEFAULT
    monkeypatch.setattr(calibration, change, lambda: "another")
    assert load(files) is DEFAULT


@pytest.mark.parametrize("terms", [[[1.0]], [[-1.0] * N_TERMS] * N_STRATEGIES, "none", None])
def test_a_whole_document_with_unusable_weights_is_ignored(terms: object, tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    document = {**calibration._dependencies(), "terms": terms}
    calibration.caches.save(files, calibration.KIND, 1, [calibration.json.dumps(document).encode()])
    assert load(files) is DEFAULT


def keep(files: LocalFiles, **document: object) -> None:
    whole = calibration._dependencies() | document
    calibration.caches.save(files, calibration.KIND, 1, [calibration.json.dumps(whole).encode()])


def test_a_document_from_before_band_joins_is_loaded_with_their_default_weights(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    keep(files, terms=[[2.0] * N_TERMS] * N_STRATEGIES)
    found = load(files)
    assert bool(np.all(found.terms == 2.0))
    assert np.array_equal(found.bands, DEFAULT.bands)


def test_a_document_from_before_batches_is_loaded_with_their_default_weights(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    bands = {"terms": [[2.0] * band_costs.N_TERMS] * band_costs.N_STRATEGIES}
    keep(files, version=2, terms=[[2.0] * N_TERMS] * N_STRATEGIES, bands=bands)
    found = load(files)
    assert bool(np.all(found.bands == 2.0))
    assert np.array_equal(found.batches, DEFAULT.batches)


@pytest.mark.parametrize(
    "changes",
    [
        {"version": calibration.VERSION + 1},
        {"version": "two"},
        {"bands": None},
        {"bands": {"terms": [[1.0]]}},
        {"bands": {"terms": [[-1.0] * band_costs.N_TERMS] * band_costs.N_STRATEGIES}},
        {"batches": None},
        {"batches": {"terms": [[1.0]]}},
    ],
)
def test_a_document_that_is_newer_or_has_unusable_weights_is_ignored(
    changes: dict[str, object], tmp_path: Path
) -> None:
    files = LocalFiles(tmp_path)
    good: dict[str, object] = {
        "version": calibration.VERSION,
        "terms": [[2.0] * N_TERMS] * N_STRATEGIES,
        "bands": {"terms": [[2.0] * band_costs.N_TERMS] * band_costs.N_STRATEGIES},
        "batches": {"terms": by_batch.WEIGHTS.tolist()},
    }
    keep(LocalFiles(tmp_path / "good"), **good)
    assert load(LocalFiles(tmp_path / "good")) is not DEFAULT
    keep(files, **(good | changes))
    assert load(files) is DEFAULT


# ── measuring ────────────────────────────────────────────────────────────────────────────────────────


def test_workloads_have_the_asked_characteristics() -> None:
    shape = JoinWorkload(20_000, 30_000, 0.8, 0.1, 1e-4, True, 10**6)
    plane, events = draw(shape, 2_000, seed=8)
    assert len(plane.a_lo) == shape.n_boxes
    assert len(events.run.values) == pytest.approx(shape.m_rows, rel=0.1)
    runs = events.end - events.begin
    assert runs.min() >= 1
    assert runs.max() <= measuring.RUN_MAX
    assert runs.max() > 20 * np.median(runs) > 20, "event join rates differ by orders"
    selected = np.searchsorted(np.sort(plane.a_lo), events.a, side="right")
    selected -= np.searchsorted(np.sort(plane.a_hi), events.a, side="left")
    assert selected.mean() / shape.n_boxes == pytest.approx(shape.selection, rel=0.2)
    for begin, end in zip(events.begin.tolist(), events.end.tolist(), strict=True):
        assert bool(np.all(np.diff(events.run.values[begin:end]) >= 0))
    again, _ = draw(shape, 2_000, seed=8)
    assert all(np.array_equal(x, y) for x, y in zip(plane, again, strict=True))


def test_measuring_gives_a_cost_for_every_event_and_strategy() -> None:
    said: list[str] = []
    values, ns = measure(TINY, 40, said.append)
    assert values.shape == (80, N_STRATEGIES, N_TERMS)
    assert ns.shape == (80, N_STRATEGIES)
    assert bool(np.all(ns >= 1))
    assert bool(np.all(np.isfinite(values)))
    assert len(said) == len(TINY)


@pytest.mark.slow
def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OpenError, match="is not a weir"):
        main(str(tmp_path), quick=True)
    (tmp_path / "weir.json").write_text("{}")
    monkeypatch.setattr(calibration, "QUICK", TINY)
    monkeypatch.setattr(band_calibration, "QUICK", TINY_BANDS)
    monkeypatch.setattr(batch_calibration, "QUICK", TINY_BATCHES)
    printed = main(str(tmp_path), quick=True)
    joins, rest = printed.split("\n\nband joins\n")
    bands, batches = rest.split("\n\nbatches of selections\n")
    assert {line.split()[0] for line in joins.splitlines()[1:]} == set(STRATEGIES)
    assert {line.split()[0] for line in bands.splitlines()[1:]} == set(BAND_STRATEGIES)
    assert bands.count("median error") == band_costs.N_STRATEGIES
    assert {line.split()[0] for line in batches.splitlines()[1:]} == set(by_batch.NAMES)
    found = load(LocalFiles(tmp_path))
    assert found is not DEFAULT
    assert bool(np.all(found.terms.sum(axis=1) > 0))
    assert bool(np.all(found.bands.sum(axis=1) > 0))
    assert bool(np.all(found.batches.sum(axis=1) > 0))


@pytest.mark.slow
def test_calibrating_without_an_audience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "QUICK", TINY)
    monkeypatch.setattr(band_calibration, "QUICK", TINY_BANDS)
    monkeypatch.setattr(batch_calibration, "QUICK", TINY_BATCHES)
    found = calibrate(None, quick=True)
    assert found.joins.samples == 200
    assert found.bands.samples == 80
    assert found.batches.samples == len(TINY_BATCHES) * len(batch_calibration.BATCHES) - 2  # some have too many pairs


@pytest.mark.slow
def test_measuring_bands_gives_a_cost_for_every_event_and_strategy(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    values, cycles = band_calibration.measure(TINY_BANDS, 15, said.append)
    assert values.shape == (60, band_costs.N_STRATEGIES, band_costs.N_TERMS)
    assert bool(np.all(cycles > 0))
    assert bool(np.all(np.isfinite(values)))
    assert len(said) == len(TINY_BANDS)
    shown = values.any(axis=0)
    assert shown.any(axis=0).all(), "workloads differ in every term"
    monkeypatch.setattr(band_calibration, "TOUCHED_MAX", 0)
    _, cycles = band_calibration.measure(TINY_BANDS[:1], 15)
    assert np.isnan(cycles[:, band_costs.DATA_OUTER]).all(), "what nobody would choose is left out"
    assert not np.isnan(np.delete(cycles, band_costs.DATA_OUTER, axis=1)).any()


def test_terms_of_bands_are_what_the_table_says() -> None:
    """A whole run with a ladder of units; other cases are compared event by event where indexes are tested."""
    plane, events = band_calibration.draw(TINY_BANDS[0], 10, seed=4)
    index = BandIndex.build(plane, is_double=False)
    table = band_calibration.term_table(index, events)
    of = {name: k for k, name in enumerate(band_costs.TERMS)}
    arrays = index.arrays()
    n, m, classes, groups = 300, 400, len(arrays["bands_longest"]), len(arrays["bands_points"])
    assert bool(np.all(table[:, :, of["event"]] == 1))
    assert table[0, :, of["boxes"]].tolist() == [n, 0, n, 0, 0]
    assert table[0, :, of["steps"]] == pytest.approx(
        [0, 0, 0, groups * np.log2(1 + m), len(arrays["bands_scattered"]) * np.log2(1 + m)]
    )
    assert table[0, :, of["visits"]].tolist() == [classes, classes * m, classes * m, groups, len(arrays["bands_hot"])]
    assert table[0, :, of["reached"]].tolist() == [0, 0, 0, min(groups, m), min(len(arrays["bands_hot"]), m)]
    assert not table[0, :, of["doubles"]].any()


def test_weights_are_found_without_what_was_not_measured() -> None:
    values, ns, terms = planted(3, noise=0.0)
    rng = np.random.default_rng(1)
    ns[rng.random(ns.shape) < 0.3] = np.nan
    fit = fit_each(values, ns, STRATEGIES, TERMS)
    assert fit.terms == pytest.approx(terms, rel=1e-6, abs=1e-6)
    assert fit.errors == pytest.approx(np.zeros(N_STRATEGIES), abs=1e-9)
