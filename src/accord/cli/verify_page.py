"""The report of a sweep as one HTML page that needs nothing else.

In: `Findings`. Out: the text of the page. Invariant: everything said in words is escaped; the page loads nothing, runs
no script, and follows the reader's light or dark scheme.
"""

from collections.abc import Iterable
from html import escape

from accord.cli.table import plural
from accord.cli.verify_map import heat_map, remainder_bars
from accord.terms.quirk import Quirk
from accord.terms.quirk_text import region_text
from accord.verify.findings import Findings, OperatorFindings, Verdict

_STYLE = """
:root { color-scheme: light dark; --page:#ffffff; --ink:#1c2430; --soft:#5d6875; --line:#d4dae2; --card:#f6f8fb;
  --good:#9ecbe8; --bad:#d55e00; --none:#eef1f5; --edge:#1c2430; --drift:#7a5c00 }
@media (prefers-color-scheme: dark) { :root { --page:#0f141a; --ink:#e6ebf1; --soft:#93a0af; --line:#2c3641;
  --card:#161d25; --good:#1d4f73; --bad:#f07b2e; --none:#1a222c; --edge:#ffffff; --drift:#ffd75e } }
* { box-sizing: border-box }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 ui-sans-serif, system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif }
main { max-width: 1080px; margin: 0 auto; padding: 32px 24px 64px }
h1 { font-size: 26px; margin: 0 0 4px } h2 { font-size: 19px; margin: 44px 0 8px } h3 { font-size: 15px; margin: 0 }
.soft { color: var(--soft) } .scroll { overflow-x: auto }
table { border-collapse: collapse; margin-top: 12px; font-variant-numeric: tabular-nums }
th { text-align: left; font-weight: 600; color: var(--soft) } th, td { padding: 4px 18px 4px 0; white-space: nowrap }
td.n, th.n { text-align: right } tr + tr td { border-top: 1px solid var(--line) }
article { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 16px 18px; margin: 12px 0 }
code, pre { font: 13px/1.45 ui-monospace, "SF Mono", Menlo, Consolas, monospace }
pre { overflow-x: auto; margin: 8px 0 0; padding: 10px 12px; border-radius: 8px; background: var(--page);
  border: 1px solid var(--line) }
.rule { font-weight: 600; overflow-wrap: anywhere } .bad-word { color: var(--bad); font-weight: 700 }
.key { display: inline-block; width: 12px; height: 12px; margin: 0 4px 0 14px; vertical-align: -1px }
svg { display: block } svg text { fill: var(--soft); font-size: 11px }
svg text.side { fill: var(--ink); font-size: 13px }
svg .none { fill: var(--none) } svg .good { fill: var(--good) } svg .bad { fill: var(--bad) }
svg .edge { stroke: var(--edge); stroke-width: 2 } svg .drift { fill: var(--drift) }
a { color: inherit }
"""
_KEY = (
    '<p class="soft"><span class="key" style="background:var(--good)"></span>none failed'
    '<span class="key" style="background:color-mix(in oklab, var(--bad) 60%, var(--good))"></span>some failed'
    '<span class="key" style="background:var(--bad)"></span>all failed'
    '<span class="key" style="background:var(--none)"></span>not asked'
    '<span class="key" style="border:2px solid var(--edge)"></span>learned region</p>'
)


def page(findings: Findings) -> str:
    """The whole page."""
    title = f"Numerics of {findings.device.name}"
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="soft">{escape(_head(findings))}</p>',
        _verdict(findings),
        _table(findings),
    ]
    body += [_operator(operator) for operator in _ordered(findings.operators)]
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n" + "\n".join(body) + "\n</main>\n</body>\n</html>\n"
    )


def _head(findings: Findings) -> str:
    points = sum(len(operator.marks) for operator in findings.operators)
    versions = ", ".join(f"{version.library} {version.version}" for version in findings.device.versions)
    told = [
        findings.found,
        versions,
        f"{plural(points, 'point')} over {plural(len(findings.operators), 'operator')}",
        f"{findings.took_s:.0f} s",
        f"witnesses: {', '.join(findings.witnesses)}",
    ]
    return " · ".join(part for part in told if part)


def _verdict(findings: Findings) -> str:
    quirks = findings.quirks
    told = f"{plural(len(quirks), 'fault')} found." if quirks else "No fault found."
    if findings.ended:
        told += f" {findings.ended}"
    return f"<p>{escape(told)}</p>"


def _table(findings: Findings) -> str:
    heads = "".join(
        f"<th{' class=n' if number else ''}>{word}</th>"
        for number, word in enumerate(("operator", "points", *(verdict.value for verdict in Verdict)))
    )
    rows = [f"<tr>{heads}</tr>"]
    for operator in _ordered(findings.operators):
        name = escape(operator.space.operator)
        cells = [f'<td><a href="#{name}">{name}</a></td>', f"<td class=n>{len(operator.marks):,}</td>"]
        for verdict in Verdict:
            count = operator.count(verdict)
            bad = verdict is Verdict.FAULT and count
            cells.append(f'<td class="n{" bad-word" if bad else ""}">{count or "·"}</td>')
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f'<div class="scroll"><table>{"".join(rows)}</table></div>'


def _operator(operator: OperatorFindings) -> str:
    name = escape(operator.space.operator)
    parts = [f'<section id="{name}"><h2>{name}</h2>']
    parts += [_quirk(quirk) for quirk in operator.quirks]
    if operator.drift:
        parts.append(f"<p>Precision only, not a fault: {escape(operator.drift)}</p>")
    parts += [_KEY, f'<div class="scroll">{heat_map(operator)}</div>']
    parts += [f'<div class="scroll">{bars}</div>' for bars in remainder_bars(operator)]
    return "\n".join([*parts, "</section>"])


def _quirk(quirk: Quirk) -> str:
    evidence = quirk.evidence
    told = [
        f"{evidence.failing:,} of {evidence.points:,} points failed",
        f"{evidence.missed} of {evidence.fresh:,} fresh points missed",
        f"{evidence.over_cover:.1%} over-cover",
        f"worst: {evidence.worst}",
        f"probes: {', '.join(evidence.probes)}",
        f"witnesses: {', '.join(evidence.witnesses)}",
    ]
    name, fault = escape(quirk.name), escape(quirk.fault.value)
    parts = [
        f'<article id="{name}">',
        f'<h3><span class="bad-word">{fault}</span> <span class="soft">{name}</span></h3>',
        f'<p class="rule"><code>{escape(region_text(quirk.region))}</code></p>',
        f'<p class="soft">{escape(" · ".join(told))}</p>',
        *_ways(quirk),
        *(f"<p>{escape(remark)}</p>" for remark in quirk.remarks),
        f"<details><summary>Reproducer</summary><pre>{escape(quirk.reproducer)}</pre></details>",
        "</article>",
    ]
    return "\n".join(parts)


def _ways(quirk: Quirk) -> Iterable[str]:
    if not quirk.workarounds:
        return
    rows = ["<tr><th>workaround</th><th class=n>time, native = 1</th><th class=n>verified on</th><th>where</th></tr>"]
    for way in quirk.workarounds:
        rows.append(
            f"<tr><td>{escape(f'{way.way.value} {way.detail}')}</td><td class=n>{way.cost_ratio:.2f}</td>"
            f"<td class=n>{way.verified}</td><td><code>{escape(region_text(way.region))}</code></td></tr>"
        )
    yield f'<div class="scroll"><table>{"".join(rows)}</table></div>'


def _ordered(operators: Iterable[OperatorFindings]) -> list[OperatorFindings]:
    """Those with faults first."""
    return sorted(operators, key=lambda operator: (not operator.quirks, operator.space.operator))
