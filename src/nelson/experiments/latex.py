"""Tables as LaTeX, in the style of the package booktabs: `tables.tex` of a run's folder.

    \\usepackage{booktabs}      in the preamble
    \\input{tables.tex}         all tables, each a float with its caption and its note

The best value of a column is bold; a rule sets the paper's figures apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from nelson.experiments.base import Table
from nelson.experiments.report import filled, numeric_columns

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{c: "\\" + c for c in "&%$#_{}"},
    "±": r"$\pm$",
    "µ": r"$\mu$",
    "×": r"$\times$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "–": "--",
    "·": r"$\cdot$",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"$|$",
}


def document(tables: Iterable[Table]) -> str:
    """All tables, one after the other."""
    return "% needs \\usepackage{booktabs}\n\n" + "\n".join(latex(table) for table in tables)


def latex(table: Table) -> str:
    """One table as a float."""
    right = numeric_columns(table)
    lines = [
        r"\begin{table}",
        rf"\caption{{{escape(table.title)}}}",
        r"\centering\small",
        rf"\begin{{tabular}}{{{''.join('r' if flush else 'l' for flush in right)}}}",
        r"\toprule",
        _line([escape(text) for text in table.columns]),
        r"\midrule",
    ]
    for number, row in enumerate(table.rows):
        if number == table.paper_from and number:
            lines.append(r"\midrule")
        texts = [escape(filled(text)) for text in row]
        lines.append(
            _line(
                [
                    rf"\textbf{{{t}}}" if (number, k) in table.best else t
                    for k, t in enumerate(texts)
                ]
            )
        )
    lines += [r"\bottomrule", r"\end{tabular}"]
    if table.note:
        lines += ["", rf"\par\smallskip\footnotesize {escape(table.note)}"]
    return "\n".join([*lines, r"\end{table}", ""])


def escape(text: str) -> str:
    """Plain text as LaTeX; `backquotes` become typewriter letters."""
    parts = re.split(r"`([^`]+)`", text)
    plain = ["".join(_SPECIAL.get(c, c) for c in part) for part in parts]
    return "".join(rf"\texttt{{{part}}}" if k % 2 else part for k, part in enumerate(plain))


def _line(texts: Sequence[str]) -> str:
    return " & ".join(texts) + r" \\"
