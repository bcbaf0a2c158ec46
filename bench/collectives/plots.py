# SPDX-License-Identifier: Apache-2.0
"""Draws what JSON files of figures say, as PNG and SVG; measures nothing.

python -m bench.collectives.plots DIR FILE.json...      all files on common axes
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_RATIO: Final = re.compile(r"(static|routed)_over_(ring|alltoall)_n(\d+)$")
_STYLES: Final = {
    ("static", "ring"): ("o", "-", "black", "every row to every rank, over ring"),
    ("routed", "ring"): ("s", "--", "0.35", "rows where needed, over ring"),
    ("routed", "alltoall"): ("^", ":", "0.6", "rows where needed, over all-to-all"),
}
_ALIKE: Final = ("switch", "geometry", "routing")
_HATCHES: Final = {
    "static": "",
    "routed": "//",
    "ring": "..",
    "all_to_all": "xx",
    "gloo": "\\\\",
    "mpi": "++",
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
        figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
        plot(axes, measured)
        for ending in ("png", "svg"):
            figure.savefig(folder / f"{name}.{ending}", dpi=150)
        plt.close(figure)


def _time_ratio(axes: Any, measured: list[Measured]) -> None:
    """Ratios of times against N, with what the bytes allow drawn in."""
    for (above, below), (marker, line, colour, label) in _STYLES.items():
        points = []
        for one in measured:
            for name, figure in one.figures.items():
                match = _RATIO.match(name)
                if match and match.groups()[:2] == (above, below):
                    points.append((int(match[3]), figure["value"], figure["limit"] / 1.05))
        points.sort()
        if points:
            num, ratio, bound = zip(*points, strict=True)
            axes.plot(
                num, bound, linestyle=line, color=colour, linewidth=1, label=f"bound: {label}"
            )
            axes.plot(num, ratio, marker, color=colour, label=f"measured: {label}")
    axes.set_xlabel("ranks N")
    axes.set_ylabel("ratio of communication times")
    axes.set_ylim(0, 1.1)
    axes.axhline(1, color="0.8", linewidth=0.8)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(fontsize=7, loc="lower left")


def _bytes(axes: Any, measured: list[Measured]) -> None:
    """Bytes of the busiest direction of a link, counted, and the payload's."""
    widest = max(measured, key=lambda one: len(one.plan["schemes"]))
    schemes = list(widest.plan["schemes"])
    own = widest.plan["tokens"] * widest.plan["hidden"] * 4
    for place, scheme in enumerate(schemes):
        figure = widest.value(f"{scheme}_bytes")
        payload = widest.value(f"{scheme}_payload_bytes")
        assert figure is not None
        assert payload is not None
        hatch = _HATCHES[scheme]
        axes.bar(place, figure / own, color="0.85", edgecolor="black", hatch=hatch)
        axes.hlines(payload / own, place - 0.4, place + 0.4, color="black", linewidth=2)
    axes.set_xticks(range(len(schemes)), [scheme.replace("_", " ") for scheme in schemes])
    axes.set_ylabel("bytes on the busiest direction of a link / M")
    ranks = widest.plan["num_ranks"]
    axes.set_title(f"N={ranks}; bars: kernel counters, lines: payload by the model", fontsize=9)


def _bands(axes: Any, measured: list[Measured]) -> None:
    """Time over the bound against the number of bands, of as many ranks as the first file's."""
    ranks = measured[0].plan["num_ranks"]
    for scheme, marker, colour in (("static", "o", "black"), ("routed", "s", "0.5")):
        points = sorted(
            (one.plan["tokens"] / one.plan["band_rows"], value)
            for one in measured
            if one.plan["num_ranks"] == ranks
            and (value := one.value(f"{scheme}_over_bound")) is not None
        )
        if points:
            bands, over = zip(*points, strict=True)
            axes.plot(bands, over, marker, color=colour, label=scheme)
    axes.axhline(1, color="black", linewidth=1, linestyle="--", label="bound: payload / rate")
    axes.set_xscale("log", base=2)
    axes.set_title(f"N={ranks}", fontsize=9)
    axes.set_xlabel("bands B of a rank's rows")
    axes.set_ylabel("time / (payload of the busiest direction / rate)")
    axes.legend(fontsize=8)


if __name__ == "__main__":
    draw([Path(name) for name in sys.argv[2:]], Path(sys.argv[1]))
