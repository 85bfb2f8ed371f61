"""How a report's plots look, and how a figure becomes SVG text that stands inside an HTML page, or a file of its own.

In a page text stays text, so that it can be searched and takes the page's font; in a file it looks the same anywhere.
Where there are very many marks they are drawn as one picture, to keep the page small.
"""

import io
import re
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

INK, MUTED, GRID = "#1f2933", "#66727f", "#e3e8ee"
BLUE, PALE_BLUE, AMBER, RED, TEAL, VIOLET = "#2463b0", "#a9c6ea", "#d08700", "#c0362c", "#168a86", "#7a4fb5"
SERIES = (BLUE, AMBER, TEAL, VIOLET, RED, "#5b8c2a", "#b0578d", "#6b7a8a")
_SHORTER = (
    (r"(\d+\.\d\d)\d+", r"\1"),
    (r" font-family: [^;\"]*;?", ""),
    (r' transform="rotate\(-0 [^"]*\)"', ""),
    (r'\s*<g id="[^"]*"/>', ""),
    (r'<g id="[^"]*"', "<g"),
    (r"\s*\n\s*", "\n"),
)
_WIDTH_IN = 9.6
_FILE_DPI = 300  # of many marks drawn as one picture
FILE_FORMATS = ("svg", "pdf")
MAKER = "Testbed report"  # which its files name as their creator
MANY_MARKS = 1500
LONGEST_LABEL = 34
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "testbed",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.size": 8.5,
    "axes.edgecolor": "#b8c2cc",
    "axes.labelcolor": MUTED,
    "axes.titlecolor": INK,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}


def with_own_ids(svg: str, prefix: str) -> str:
    """The same figure with ids that start with `prefix`, so that no two figures of a page share one."""
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}\1"', svg)
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{prefix}", svg)


def time_unit(largest_ns: int) -> tuple[float, str]:
    """The unit in which `largest_ns` reads best: how many ns it has, and its name."""
    for scale, name in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if largest_ns >= scale:
            return scale, name
    return 1.0, "ns"


def shortened(text: str, longest: int = LONGEST_LABEL) -> str:
    """The text, without its middle if it is longer: what tells two apart is mostly at an end."""
    if len(text) <= longest:
        return text
    end = longest // 2
    return f"{text[: longest - end - 1]}…{text[-end:]}"


def new_figure(height_in: float, columns: int, rows: int = 1, **grid: Any) -> tuple[Figure, Sequence[Axes]]:
    figure = Figure(figsize=(_WIDTH_IN, height_in), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06))
    return figure, list(figure.subplots(rows, columns, squeeze=False, **grid).flat)


def legend_above(axes: Axes) -> None:
    axes.legend(loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=4, handlelength=1.0, handleheight=0.9)


def as_svg(figure: Figure) -> str:
    """The figure as an `<svg>` element that fills its place.

    What would only make the page larger is cut away: fonts (the page's are used), names of groups, decimals of
    coordinates beyond what a screen shows.
    """
    text = io.StringIO()
    with mpl.rc_context(STYLE):  # of what is made only when it is drawn, such as ticks
        figure.savefig(text, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    for pattern, short in _SHORTER:
        svg = re.sub(pattern, short, svg)
    return re.sub(r'(<svg[^>]*?) width="[^"]*" height="[^"]*"', r"\1", svg, count=1)


def as_file(figure: Figure, file_format: str) -> bytes:
    """The figure as a file of `FILE_FORMATS`, for a paper: with its fonts in it, and the same bytes each time."""
    file = io.BytesIO()
    dates = {"svg": "Date", "pdf": "CreationDate"}
    with mpl.rc_context({**STYLE, "svg.fonttype": "path", "pdf.fonttype": 42}):  # 42: TrueType, as publishers ask for
        figure.savefig(file, format=file_format, dpi=_FILE_DPI, metadata={"Creator": MAKER, dates[file_format]: None})
    return file.getvalue()
