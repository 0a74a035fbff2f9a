"""A report of statistics as one HTML file: histograms, frequent texts, and some pictures; no scripts."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import suppress
from html import escape

import numpy as np

from ...dataset.opening import dataset_at
from ...errors import EnergonError, plural
from ...format.dataset_ref import DatasetRef
from ...parts.kinds import kind_of_name
from ...samples.picture import PictureError, encoded_picture
from ..text import format_bytes
from .collect import StatsReport
from .distribution import Distribution, TopValues

_PICTURES = 24  # of evenly spaced samples
_SIDE = 160  # pixels
_MAX_PIXELS = 100_000_000  # of a picture: a bomb is left out
_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
h2 { margin-top: 2.5rem; }
table { border-collapse: collapse; }
td, th { padding: .15rem .8rem .15rem 0; text-align: left; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
section.values { display: grid; grid-template-columns: repeat(auto-fill, minmax(20rem, 1fr)); gap: 1.5rem; }
svg { width: 100%; height: 6rem; } rect { fill: #4878a8; } figure { margin: 0; }
.pictures { display: flex; flex-wrap: wrap; gap: .5rem; } .pictures img { height: 10rem; }
code { overflow-wrap: anywhere; }
"""


def html_report(report: StatsReport, ref: DatasetRef | None = None) -> str:
    """Return a report as an HTML document, which loads nothing from elsewhere.

    Args:
        ref: Folder or file to read pictures from; None for the path of the report.
    """
    title = escape(f"Statistics of {report.path}")
    read = plural(report.samples, "sample")
    if report.is_sampled:
        read = f"{read} of {report.population:,}, drawn at random"
    numbers = "".join(_number(name, distribution, report) for name, distribution in sorted(report.numbers.items()))
    texts = "".join(_texts(name, values) for name, values in sorted(report.texts.items()))
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
        'style-src \'unsafe-inline\'"><meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{_STYLE}</style><h1>{title}</h1><p>{read}</p>"
        f"{''.join(_broken(report))}{''.join(_duplicates(report))}"
        f'<h2>Pictures</h2><div class="pictures">{"".join(_pictures(ref or DatasetRef(report.path)))}</div>'
        f'<h2>Numbers</h2><section class="values">{numbers}</section>'
        f'<h2>Texts</h2><section class="values">{texts}</section></html>'
    )


def _number(name: str, distribution: Distribution, report: StatsReport) -> str:
    bars = distribution.histogram(40)
    most = max((count for _, _, count in bars), default=1)
    width = 100 / max(1, len(bars))
    drawn = "".join(
        f'<rect x="{position * width:.2f}" y="{100 - 100 * count / most:.2f}" width="{width * 0.92:.2f}" '
        f'height="{100 * count / most:.2f}"><title>{low:,.4g} – {high:,.4g}: {count:,}</title></rect>'
        for position, (low, high, count) in enumerate(bars)
    )
    facts = f"{distribution.minimum:,.4g} – {distribution.maximum:,.4g}, "
    facts += f"median {distribution.quantile(0.5):,.4g}, mean {distribution.mean:,.4g}"
    if report.is_sampled:
        low, high = distribution.mean_interval(report.population)
        facts += f" (95 %: {low:,.4g} – {high:,.4g})"
    return (
        f"<figure><figcaption><b><code>{escape(name)}</code></b>, {distribution.count:,}: {facts}</figcaption>"
        f'<svg viewBox="0 0 100 100" preserveAspectRatio="none" role="img">{drawn}</svg></figure>'
    )


def _texts(name: str, values: TopValues) -> str:
    rows = "".join(
        f'<tr><td><code>{escape(text)}</code><td class="n">{count:,}' for text, count in values.most_common()
    )
    caption = f"<b><code>{escape(name)}</code></b>, {values.distinct:,} different"
    return f"<figure><figcaption>{caption}</figcaption><table>{rows}</table></figure>"


def _broken(report: StatsReport) -> Iterator[str]:
    if report.broken_count:
        yield f"<h2>Broken parts: {report.broken_count:,}</h2><table>"
        for part in report.broken:
            yield f"<tr><td><code>{escape(part.sample)}</code><td>{escape(part.part)}<td>{escape(part.reason)}"
        yield "</table>"


def _duplicates(report: StatsReport) -> Iterator[str]:
    if report.duplicates:
        samples = sum(map(len, report.duplicates))
        yield f"<h2>Duplicates: {plural(samples, 'sample')} in {plural(len(report.duplicates), 'group')}</h2><table>"
        for group in report.duplicates[:50]:
            yield f'<tr><td class="n">{len(group):,}<td><code>{escape(", ".join(group[:5]))}</code>'
        yield "</table>"


def _pictures(ref: DatasetRef) -> Iterator[str]:
    # Find the pictures.
    folder = dataset_at(ref)
    parts = [name for name in folder.index.part_names if kind_of_name(name) == "image"]
    if not parts:
        return
    # Shrink and encode some of them; broken ones are listed above.
    for sample in np.unique(np.linspace(0, len(folder.index) - 1, _PICTURES).astype(int)).tolist():
        key = folder.index.full_key(sample)
        with suppress(EnergonError, PictureError):
            data = folder.read_parts(sample, parts[:1]).get(parts[0])
            if not isinstance(data, bytes):
                continue
            picture = encoded_picture(data)
            if picture.width * picture.height <= _MAX_PIXELS:
                encoded = base64.b64encode(picture.jpeg(_SIDE)).decode("ascii")
                title = escape(f"{key}, {format_bytes(len(data))}", quote=True)
                yield f'<img title="{title}" alt="{title}" src="data:image/jpeg;base64,{encoded}">'
    folder.close()
