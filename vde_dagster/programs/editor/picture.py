"""The lineage of a file as a picture: its models with their inputs and readers (SVG)."""

from __future__ import annotations

from html import escape

from vde_dagster.base.names import ModelName
from vde_dagster.programs.editor.reading import Reading
from vde_dagster.project.dag import children

WIDTH, HEIGHT, GAP, BETWEEN = 220, 28, 12, 90
"""Size of a box, and the space below and between boxes (pixels)."""


def lineage_picture(reading: Reading, path: str) -> str:
    """Draw a file's models with their parents and children as SVG; "" without models."""
    models = reading.project.models
    own = [model.name for model in reading.models_in(path) if not model.kind.is_external]
    if not own:
        return ""
    below = children(models)
    parents = sorted({p for name in own for p in models[name].depends_on} - set(own))
    readers = sorted({c for name in own for c in below.get(name, ())} - set(own))
    columns = [parents, own, readers]
    tall = max(len(column) for column in columns) * (HEIGHT + GAP) + GAP
    places: dict[ModelName, tuple[float, float]] = {}
    for index, column in enumerate(columns):
        top = (tall - len(column) * (HEIGHT + GAP) + GAP) / 2
        for row, name in enumerate(column):
            places[name] = (GAP + index * (WIDTH + BETWEEN), top + row * (HEIGHT + GAP))
    edges = [
        (parent, name)
        for name in (*own, *readers)
        for parent in models[name].depends_on
        if parent in places and (name in own or parent in own)
    ]
    wide = 3 * WIDTH + 2 * BETWEEN + 2 * GAP
    return "".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{tall:.0f}" '
            'font-family="sans-serif" font-size="12">',
            *(_edge_svg(places[one], places[other]) for one, other in edges),
            *(_box_svg(name, *place, strong=name in own) for name, place in places.items()),
            "</svg>",
        ]
    )


def _edge_svg(start: tuple[float, float], end: tuple[float, float]) -> str:
    x1, y1 = start[0] + WIDTH, start[1] + HEIGHT / 2
    x2, y2 = end[0], end[1] + HEIGHT / 2
    middle = (x1 + x2) / 2
    curve = f"M{x1:.0f} {y1:.0f}C{middle:.0f} {y1:.0f} {middle:.0f} {y2:.0f} {x2:.0f} {y2:.0f}"
    return f'<path d="{curve}" fill="none" stroke="#888"/>'


def _box_svg(name: ModelName, x: float, y: float, *, strong: bool) -> str:
    fill, text = ("#2f6fde", "#fff") if strong else ("#eef2f8", "#222")
    shown = str(name) if len(str(name)) <= 32 else f"…{str(name)[-31:]}"
    return (
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{WIDTH}" height="{HEIGHT}" rx="5" fill="{fill}"/>'
        f'<text x="{x + 10:.0f}" y="{y + 18:.0f}" fill="{text}">{escape(shown)}'
        f"<title>{escape(str(name))}</title></text>"
    )
