# SPDX-License-Identifier: Apache-2.0
"""Draws what JSON files of figures say, as PNG and SVG; measures nothing.

python -m bench.collectives.plots DIR FILE.json...      all files on common axes
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bench.collectives.figures import SLACK
from bench.collectives.plan import NUM_EXPERTS, SCHEMES, TOP_K, UNIFORM, VALUE_BYTES

Values = NDArray[np.float64]
_RATIO: Final = re.compile(r"(static|routed)_over_(ring|alltoall)_n(\d+)(_bmv2)?$")
_STYLES: Final = {
    ("static", "ring"): ("o", "-", "black", "every row to every rank (static) / ring"),
    ("routed", "ring"): ("s", "--", "0.35", "rows where needed (routed) / ring"),
    ("routed", "alltoall"): ("^", ":", "0.55", "rows where needed (routed) / all-to-all"),
}
_DODGE: Final = 0.12  # ranks, between points that would hide each other
_ALIKE: Final = ("switch", "geometry", "routing")
_ONE_BANDS_PLOT: Final = ("num_ranks", "rate_bits_s", "tokens", "num_slots")
_ABOVE: Final = {
    "xytext": (0, 2),
    "textcoords": "offset points",
    "ha": "center",
    "va": "bottom",
    "fontsize": 6.5,
}


@dataclass(frozen=True, slots=True)
class Measured:
    """One file."""

    figures: Mapping[str, Mapping[str, Any]]
    plan: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> Measured:
        """A file that write_figures wrote."""
        record = json.loads(path.read_text())
        by_name = {figure["name"]: figure for figure in record["figures"]}
        return cls(by_name, record["environment"]["plan"])

    def value(self, name: str) -> float | None:
        """A figure of this run's number of ranks; None if it was not measured."""
        suffix = f"_n{self.plan['num_ranks']}" + ("_bmv2" if self.plan["switch"] == "bmv2" else "")
        figure = self.figures.get(f"{name}{suffix}")
        return None if figure is None else float(figure["value"])


def draw(files: Sequence[Path], folder: Path) -> None:
    """Draw all plots into a folder."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    read = [Measured.read(path) for path in files]
    measured = [one for one in read if all(one.plan[n] == read[0].plan[n] for n in _ALIKE)]
    plots: dict[str, Callable[[Any, list[Measured]], None]] = {
        "time-ratio": _time_ratio,
        "bytes": _bytes,
        "bands": _bands,
    }
    for name, plot in plots.items():
        figure, axes = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
        plot(axes, measured)
        for ending in ("png", "svg"):
            figure.savefig(folder / f"{name}.{ending}", dpi=150)
        plt.close(figure)


def _time_ratio(axes: Any, measured: list[Measured]) -> None:
    """Ratios of times against N, with what the bytes allow drawn in."""
    for place, (pair, (marker, line, colour, label)) in enumerate(_STYLES.items()):
        points = sorted(_ratios(measured, pair))
        if points:
            num, ratio, bound = zip(*points, strict=True)
            uniform = measured[0].plan["routing"] == UNIFORM
            curve = _uniform(pair, num) if uniform else (num, bound)
            axes.plot(*curve, line, color=colour, label=f"bound: {label}")
            dodged = [n + (place - 1) * _DODGE for n in num]
            axes.plot(dodged, ratio, marker, color=colour, label=f"measured: {label}")
    axes.set_xlabel("number of ranks N")
    axes.set_ylabel("ratio of communication times (1: as long)")
    axes.set_ylim(0, 1.1)
    axes.axhline(1, color="0.8", linewidth=0.8)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(fontsize=8, loc="lower left")


def _uniform(pair: tuple[str, str], measured: Sequence[int]) -> tuple[Values, Values]:
    """N from the least to the most, and the bound at each, for uniform routing."""
    num = np.linspace(min(measured), max(measured), 100)
    return num, uniform_bound(pair, num)


def uniform_bound(pair: tuple[str, str], num: Values) -> Values:
    """The ratio of a pair's bytes at each N, as D is to be expected."""
    drawn = np.arange(TOP_K)
    elsewhere = NUM_EXPERTS * (1 - 1 / num[:, None])  # experts, as one rank sees it
    missed = ((elsewhere - drawn) / (NUM_EXPERTS - drawn)).prod(axis=1)
    fanout = (num - 1) * (1 - missed)  # D
    above = num if pair[0] == "static" else fanout + 1
    below = 2 * (num - 1) if pair[1] == "ring" else 2 * fanout
    return above / below


def _ratios(measured: list[Measured], pair: tuple[str, str]) -> Iterator[tuple[int, float, float]]:
    """N, ratio and bound of all that was measured of a pair."""
    for one in measured:
        for name, figure in one.figures.items():
            match = _RATIO.match(name)
            if match and match.groups()[:2] == pair:
                yield int(match[3]), figure["value"], figure["limit"] / SLACK


def _bytes(axes: Any, measured: list[Measured]) -> None:
    """Bytes of the busiest direction of a link, counted, and the payload's, by scheme and N."""
    counts = sorted({one.plan["num_ranks"] for one in measured})
    shades = dict(zip(counts, ("1.0", "0.8", "0.6", "0.4"), strict=False))
    width = 0.84 / len(counts)
    for place, scheme in enumerate(SCHEMES):
        for column, num in enumerate(counts):
            found = _in_own_bytes(measured, scheme, num)
            if found is None:
                continue
            counted, payload = found
            x = place + (column - (len(counts) - 1) / 2) * width
            label = f"N={num}" if place == 0 else None
            axes.bar(x, counted, width, color=shades[num], edgecolor="black", label=label)
            axes.hlines(payload, x - width / 2, x + width / 2, color="black", linewidth=2.5)
            axes.annotate(f"{counted:.2f}\n{payload:.2f}", (x, counted), **_ABOVE)
    axes.set_xticks(range(len(SCHEMES)), [scheme.replace("_", "-") for scheme in SCHEMES])
    axes.set_ylabel("bytes on the busiest direction of a link, in M")
    axes.margins(y=0.12)
    axes.set_title(
        "M: bytes of one rank's rows. Bar, upper number: kernel counters; "
        "line, lower number: payload by the model",
        fontsize=8,
    )
    axes.legend(fontsize=8, loc="upper left")


def _in_own_bytes(measured: list[Measured], scheme: str, num: int) -> tuple[float, float] | None:
    """Bytes counted and of payload, in M; of the first file that has them."""
    for one in measured:
        counted = one.value(f"{scheme}_bytes")
        payload = one.value(f"{scheme}_payload_bytes")
        if one.plan["num_ranks"] == num and counted is not None and payload is not None:
            own = one.plan["tokens"] * one.plan["hidden"] * VALUE_BYTES
            return counted / own, payload / own
    return None


def _bands(axes: Any, measured: list[Measured]) -> None:
    """Time over the bound against the number of bands, of runs that otherwise are the first's."""
    first = measured[0].plan
    alike = [
        one for one in measured if all(one.plan[name] == first[name] for name in _ONE_BANDS_PLOT)
    ]
    for scheme, marker, line, colour in (
        ("static", "o", "-", "black"),
        ("routed", "s", "--", "0.45"),
    ):
        points = sorted(
            (one.plan["tokens"] // one.plan["band_rows"], value)
            for one in alike
            if (value := one.value(f"{scheme}_over_bound")) is not None
        )
        if points:
            bands, over = zip(*points, strict=True)
            axes.plot(bands, over, marker + line, color=colour, linewidth=0.8, label=scheme)
            axes.set_xscale("log", base=2)
            axes.set_xticks(bands, [str(number) for number in bands])
    axes.axhline(1, color="black", linewidth=1.5, linestyle=":", label="bound: payload / rate")
    axes.set_title(
        f"N={first['num_ranks']}, {first['rate_bits_s'] / 1e6:g} Mbit/s, "
        f"{first['tokens']} rows a rank, window {first['num_slots']}",
        fontsize=9,
    )
    axes.set_xlabel("number of bands that a rank's rows are cut into")
    axes.set_ylabel("time / (payload of the busiest direction / rate)")
    axes.legend(fontsize=8)


if __name__ == "__main__":
    draw([Path(name) for name in sys.argv[2:]], Path(sys.argv[1]))
