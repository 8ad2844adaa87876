"""Comparison of calls that do the same: in one process, in turn, so that other work slows all of them alike.

In each round every call is timed once, in an order that changes from round to round; ratios are taken within
a round. The first call is there twice: the ratio of the two is the control, which is 1 on a quiet machine.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

CONTROL = "the same again"


@dataclass
class Comparison:
    """Seconds that each call took, round by round; the first is the reference."""

    seconds: dict[str, list[float]]

    @property
    def reference(self) -> str:
        return next(iter(self.seconds))

    def ratios(self, slower: str, faster: str) -> list[float]:
        return [a / b for a, b in zip(self.seconds[slower], self.seconds[faster], strict=True)]


def compare(calls: Mapping[str, Callable[[], object]], *, number: int = 1, rounds: int = 25) -> Comparison:
    """Time calls: `number` times in a row in each of `rounds` rounds, after one that does not count."""
    reference = next(iter(calls))
    turns = [*calls.items(), (CONTROL, calls[reference])]
    seconds: dict[str, list[float]] = {name: [] for name, _ in turns}
    for this in range(-1, rounds):
        shift = this % len(turns)
        for name, call in turns[shift:] + turns[:shift]:
            start = time.perf_counter()
            for _ in range(number):
                call()
            taken = (time.perf_counter() - start) / number
            if this >= 0:
                seconds[name].append(taken)
    return Comparison(seconds)


def show(title: str, comparison: Comparison) -> None:
    """Print the median of each call, and how it compares with the reference."""
    print(f"\n{title}")
    width = max(map(len, comparison.seconds))
    for name, taken in comparison.seconds.items():
        ratio = spread(comparison.ratios(name, comparison.reference))
        print(f"  {name:<{width}}  {in_words(statistics.median(taken)):>9}  {ratio}")


def target(what: str, ratios: list[float], *, at_most: float | None = None, at_least: float | None = None) -> None:
    """Print a target, and whether the median of `ratios` meets it."""
    median = statistics.median(ratios)
    met = median >= at_least if at_least is not None else at_most is not None and median <= at_most
    wanted = f"at least {at_least}" if at_least is not None else f"at most {at_most}"
    print(f"  target: {what} {wanted}: {spread(ratios)}: {'met' if met else 'MISSED'}")


def spread(ratios: list[float]) -> str:
    """Return median and quartiles of ratios."""
    low, median, high = statistics.quantiles(ratios, n=4)
    return f"{median:.2f} ({low:.2f} to {high:.2f})"


def in_words(seconds: float) -> str:
    unit, factor = next((u, f) for u, f in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)) if seconds >= f)
    return f"{seconds / factor:.3g} {unit}"


def rounds_from_command_line(description: str | None, default: int) -> int:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=default, help=f"how often each is timed ({default})")
    rounds: int = parser.parse_args().rounds
    return max(rounds, 2)
