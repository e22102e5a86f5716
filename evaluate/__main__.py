"""
`python -m evaluate`: measure the bundles that ship, and write docs/evaluation/README.md.

`python -m evaluate first` measures only its first section, on real people and crawlers.
"""

from __future__ import annotations

import sys
import time
import timeit
from pathlib import Path
from random import Random

from evaluate import ablation, candidate_features, consistency, crawls, independent, live, real, sites
from evaluate.tables import table, verdict
from evaluate.texts import text
from hedgerow.lab.train.samples import PERSON, samples_of, windows_of
from hedgerow.lab.train.simulated_data import Size, draw_walks
from hedgerow.lab.train.training_report import calibration_plot
from hedgerow.watch.models.bundle import SHIPPED, shipped

OUT = Path(__file__).parents[1] / "docs" / "evaluation"


def calibration(parts: list[str]) -> None:
    bundle = shipped("boosted")
    (OUT / "calibration.svg").write_text(calibration_plot(bundle.metrics))
    off = [[size, f"{its['calibration_error']:.4f}", f"{its['auc']:.4f}"] for size, its in bundle.metrics.items()]
    counts = bundle.metrics["60"]["confusion"]
    head = sorted({name for row in counts.values() for name in row})
    rows = [[truth, *(str(counts[truth].get(name, 0)) for name in head)] for truth in sorted(counts)]
    parts.append(text("calibration"))
    parts.append(table(["visits", "off", "area under ROC"], off))
    parts.append(text("confusion"))
    parts.append(table(["", *head], rows))
    parts.append("![Calibration](calibration.svg)\n")


def speed(parts: list[str]) -> None:
    rows = []
    walks = draw_walks(3, Size(sites=2, people=30, crawlers=30))
    for name in SHIPPED:
        bundle = shipped(name)
        its = windows_of(walks, Random(1)) if name == "window" else [s for w in walks for s in samples_of(w, (60,))]
        row = next(s.features[: len(bundle.features)] for s in its if verdict(bundle, s) != PERSON)
        times = sorted(timeit.repeat(lambda b=bundle, r=row: b.judge(r, 60), number=20, repeat=200))
        rows.append([name, f"{times[0] / 20 * 1e6:.0f}", f"{times[100] / 20 * 1e6:.0f}"])
    parts.append(text("speed"))
    parts.append(table(["bundle", "quickest", "median"], rows))


def decides(goal: list[str]) -> bool:
    """Whether a row of the goals is of real people or crawlers, with labels that no detector sees."""
    return not any(word in goal[0] for word in ("generated", "people, logs", "readers", "human-like"))


def goals_of(goals: list[list[str]]) -> str:
    """The goals that decide, and below them the rows that are for comparison only."""
    head = table(["goal", "measured", "the paper", ""], [goal for goal in goals if decides(goal)])
    others = [[*goal[:3]] for goal in goals if not decides(goal)]
    below = f"{text('for_comparison')}\n{table(['for comparison', 'measured', 'the paper'], others)}" if others else ""
    return f"{text('goals')}\n{head}\n{below}"


def refresh_first_section() -> None:
    """Measure real people and crawlers again, and leave the rest of the page as it is."""
    page = OUT / "README.md"
    before, _, rest = page.read_text().partition(independent.BEGIN)
    page.write_text(before + independent.section() + rest.partition(f"{independent.END}\n")[2])


def main() -> None:
    started = time.monotonic()

    def print_progress(done: str) -> None:
        print(f"{time.monotonic() - started:5.0f} s  {done}", file=sys.stderr, flush=True)

    missing = [name for name, (root, home) in live.SITES.items() if not (root / home).is_file()]
    if missing:
        sys.exit(f"not here: {', '.join(missing)}; apt-get install postgresql-doc-15 qtbase5-doc-html")
    OUT.mkdir(parents=True, exist_ok=True)
    parts = []
    parts.append(text("intro"))
    people, others = crawls.generated()
    drawn = sites.drawn_rows()
    print_progress("people and crawlers drawn")
    left_out = {}
    if real.is_available():
        left_out = sites.without_each(drawn)
        print_progress("bundles without each log")
    else:
        print("The real logs are not beside the checkout: those tables are left out.", file=sys.stderr)
    goals = crawls.table_one(parts, people, left_out)
    crawls.simulated(parts, others)
    print_progress("live crawls judged")
    if left_out:
        goals += sites.logs(parts, left_out, drawn)
        goals += sites.iliou(parts)
        print_progress("logs judged")
    else:
        parts.append("## Real logs\n\nNot there when this was made; left out.\n")
    crawls.window(parts, people, others)
    ablation.table_of(parts, people, drawn)
    consistency.table_of(parts, people)
    if left_out:
        candidate_features.table_of(parts)
    print_progress("features left out")
    calibration(parts)
    speed(parts)
    parts.insert(1, independent.section())
    parts.insert(2, goals_of(goals))
    (OUT / "README.md").write_text("\n".join(parts))
    print_progress("docs/evaluation/README.md")


if __name__ == "__main__":
    # `python -m evaluate first` takes a minute, all of it much longer.
    refresh_first_section() if sys.argv[1:] == ["first"] else main()
