"""The style of a report: one column that fits a phone, in light or dark mode."""

from __future__ import annotations

__all__ = ["STYLE"]

STYLE = """\
:root { color-scheme: light dark; --ink: #1c1c1e; --soft: #56565c; --paper: #ffffff;
  --grid: #dddddd; --heat: 0, 114, 178; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ececf0; --soft: #a9a9b2; --paper: #141417; --grid: #3a3a40;
    --heat: 64, 156, 214; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 46rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.6rem; margin: 0.5rem 0 0; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2rem 0 0.3rem; }
p, li { color: var(--soft); margin: 0.3rem 0; overflow-wrap: anywhere; }
code { overflow-wrap: anywhere; }
svg { width: 100%; height: auto; display: block; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.92rem; }
caption { text-align: left; color: var(--soft); font-size: 0.85rem; }
th, td { padding: 0.25rem 0.7rem 0.25rem 0; text-align: right; white-space: nowrap; }
th[scope=row], th[scope=col]:first-child { text-align: left; font-weight: 600; }
thead th { border-bottom: 1px solid var(--grid); font-weight: 600; }
.heat td, .heat th { padding: 0.3rem 0.6rem; }
.heat tbody td { background: rgba(var(--heat), calc(var(--share) * 0.6)); }
@media print { body { font-size: 11pt; } section { break-inside: avoid; } }
"""
