# SPDX-License-Identifier: GPL-2.0-only
"""Heat maps over two knobs, the value written in each cell, as the Kyber paper has them (Figures 2 and 3)."""

from tailgate.show.grids import Matrix, matrices
from tailgate.show.plots.panel import COLOURS, Panel, Runs, Trace

#: Low to high, light to dark; plotly chooses dark or light digits by the cell's colour.
SCALE = ("#e3edf9", "#7ba7dc", "#1f4e9c")
CORNER = COLOURS[3]


def panels(runs: Runs) -> list[Panel]:
    """A panel for each run, load, flow and figure; empty unless exactly two knobs vary."""
    out = []
    for run, points in runs:
        dilation = max((p.dilation for p in points if p.variant is None), default=1)
        note = f"time dilated {dilation}×" if dilation > 1 else ""
        for matrix in matrices(run, points):
            about = f"Heat map of {matrix.title}, over {' and '.join(matrix.knobs)}"
            title = f"{run.target}: {matrix.title}" if len(runs) > 1 else matrix.title
            out.append(Panel(title, about, [_heat_map(matrix)], _layout(matrix), note))
    return out


def _heat_map(matrix: Matrix) -> Trace:
    first, second = matrix.knobs
    return {
        "type": "heatmap",
        "x": matrix.columns,
        "y": matrix.rows,
        "z": matrix.values,
        "text": matrix.texts,
        "texttemplate": "%{text}",
        "textfont": {"size": 10},
        "colorscale": [[i / (len(SCALE) - 1), colour] for i, colour in enumerate(SCALE)],
        "showscale": False,
        "xgap": 1,
        "ygap": 1,
        "hoverongaps": False,
        "hovertemplate": f"{first} %{{y}}, {second} %{{x}}: %{{text}}<extra></extra>",
    }


def _layout(matrix: Matrix) -> Trace:
    """Axes of categories, and an outline around each corner, in the serial numbers of the categories."""
    corners = [(x, y) for x in {0, len(matrix.columns) - 1} for y in {0, len(matrix.rows) - 1}]
    axis = {"type": "category", "fixedrange": True, "showgrid": False}
    return {
        "margin": {"l": 44, "r": 8, "t": 8, "b": 30},
        "xaxis": axis,
        "yaxis": axis,
        "shapes": [
            {
                "type": "rect",
                "x0": x - 0.5,
                "x1": x + 0.5,
                "y0": y - 0.5,
                "y1": y + 0.5,
                "line": {"width": 2, "color": CORNER},
            }
            for x, y in sorted(corners)
        ],
    }
