"""
Traffic similarity: crawlers whose traffic rises and falls together (PubCrawl, section 4, algorithm 1).

Series are taken one by one. Each joins the cluster whose medoid it resembles most, if 1 over their squared distance is
above tau = k / its standard deviation, and its volume, amplitude and deviation are near the medoid's. Otherwise it
founds a cluster. Three members or more are a campaign. Then founders are compared again with a shift of up to a day
either way, to find a crawler whose workers start one after the other.

The paper learned k = 350 from sources with about 90,000 requests each in five days (73 million requests of 813
sources). Two sources with the same plan differ by chance, and their squared distance is about 2 / volume. So with a
thousandth of the requests the same plan gives a thousandth of the likeness, and k = 350 finds nothing on a small site.
Therefore k is multiplied by a source's volume / 90,000, if it has fewer requests.

A series is compared with very many founders, so most are ruled out cheaply and without loss: by volume, and by the
distance over a few principal axes, which is a lower bound. Blocks bound the memory. The same series in the same order
give the same clusters.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

K = 350.0
VOLUME_OF_K = 90_000.0
"""The requests of a source, in a window of five days, for which k was learned."""

_BLOCK = 1024
_ROWS = 128
_PAIRS = 64
_AXES = 16
_SLACK = 1e-9
_MOST_SHIFTED = 1000
_MOST_OF_IT = 0.5


class SimilarityLimits(msgspec.Struct, frozen=True):
    """
    Limits of a campaign of synchronous crawlers.

    *k* as in tau = k / deviation, for sources with *volume_of_k* requests; 0: for all sources alike. *volume*,
    *amplitude*, *deviation*: by which share a series may differ from the medoid. *members*: fewest sources. *active*:
    fewest intervals with a request; a source with one visit is synchronous with everybody. *requests*: fewest requests;
    below that, steady strangers are alike by chance. *shift*: most intervals between members.
    """

    k: float = K
    volume_of_k: float = VOLUME_OF_K
    volume: float = 0.25
    amplitude: float = 0.35
    deviation: float = 0.30
    members: int = 3
    active: int = 8
    requests: int = 100
    shift: int = 48

    def k_of(self, volumes: Floats) -> Floats:
        """Return k for sources with so many requests."""
        if not self.volume_of_k:
            return np.full(len(volumes), self.k)
        return np.asarray(self.k * np.minimum(volumes / self.volume_of_k, 1.0), np.float64)


class SimilarGroups(NamedTuple):
    """
    A campaign: its *kind*, *members* (numbers of sources, ascending) and a sentence that says why.

    *similarity*: how alike the members are, 0 to 1 (for series: mean correlation with the medoid). *shifts*: members
    that match only when moved by so many seconds.
    """

    kind: str
    members: tuple[int, ...]
    similarity: float
    text: str
    shifts: tuple[tuple[int, float], ...] = ()


class Clusters(NamedTuple):
    """The number of each series' medoid (its own for a founder), and its shift."""

    medoids: Ints
    shifts: Ints


def find(counts: Floats, limits: SimilarityLimits | None = None, *, interval: float = 1800.0) -> list[SimilarGroups]:
    """
    Return the campaigns among sources whose requests per interval are the rows of *counts*, largest first.

    *interval* is in seconds and only appears in the text.
    """
    wanted = limits or SimilarityLimits()
    enough = (np.count_nonzero(counts, axis=1) >= wanted.active) & (counts.sum(axis=1) >= wanted.requests)
    busy = np.nonzero(enough)[0]
    series, volumes = _shares(counts[busy])
    clusters = cluster(series, volumes, wanted)
    clusters = merge_shifted(series, volumes, clusters, wanted)
    found = []
    medoids, sizes = np.unique(clusters.medoids, return_counts=True)
    for medoid in medoids[sizes >= wanted.members].tolist():
        inside = np.nonzero(clusters.medoids == medoid)[0]
        found.append(_told(series, inside, medoid, clusters.shifts[inside], busy, interval))
    return sorted(found, key=lambda one: (-len(one.members), one.members))


def _told(series: Floats, inside: Ints, medoid: int, shifts: Ints, busy: Ints, interval: float) -> SimilarGroups:
    both = (_aligned(series[row], series[medoid], int(shift)) for row, shift in zip(inside, shifts, strict=True))
    alike = float(np.mean([_correlation(*pair) for pair in both]))
    apart = int(np.abs(shifts).max())
    text = (
        f"{len(inside):,} sources whose requests rise and fall together in intervals of {interval / 60:g} minutes: "
        f"their correlation is {alike:.2f} on average"
    )
    if apart:
        text += f", once they are shifted by up to {apart * interval / 3600:.1f} hours"
    members = busy[inside]
    later = tuple(zip(members[shifts != 0].tolist(), (shifts[shifts != 0] * interval).tolist(), strict=True))
    return SimilarGroups("synchronous", tuple(members.tolist()), round(alike, 4), text + ".", later)


def _shares(counts: Floats) -> tuple[Floats, Floats]:
    volumes = counts.sum(axis=1)
    return counts / np.maximum(volumes, 1.0)[:, None], volumes


class _Founders:
    """
    The founders so far, sorted by volume, along their principal axes.

    Each is kept as (-2 z, 1, z²), so that its product with a row's (z, z² - reach², 1) is the squared distance over the
    axes less what is allowed: one product and one comparison for each pair. Single precision does for ruling out.
    """

    def __init__(self, rotated: Floats, volumes: Floats, reach: Floats) -> None:
        squares = (rotated**2).sum(axis=1)
        one = np.ones(len(rotated))
        self._rows = np.column_stack((rotated, squares - reach**2, one)).astype(np.float32)
        self._columns = np.column_stack((-2.0 * rotated, one, squares)).astype(np.float32)
        self._slack = np.float32(1e-5 * squares.max())
        self._volumes = volumes
        self.numbers = np.zeros(0, dtype=np.int64)
        self._sorted = np.zeros(0)
        self._kept = self._columns[:0]

    def add(self, numbers: Ints) -> None:
        joined = np.concatenate((self.numbers, numbers))
        volumes = self._volumes[joined]
        order = np.lexsort((joined, volumes))
        self.numbers, self._sorted = joined[order], volumes[order]
        self._kept = self._columns[self.numbers]

    def near(self, rows: Ints, share: float) -> tuple[Ints, Ints]:
        """Return pairs of a row (place in *rows*) and a founder whose distance may be within the row's reach."""
        volumes = self._volumes[rows]
        begin = int(np.searchsorted(self._sorted, volumes.min() * share * (1 - _SLACK)))
        end = int(np.searchsorted(self._sorted, volumes.max() / share * (1 + _SLACK)))
        beyond = self._rows[rows] @ self._kept[begin:end].T
        pairs = np.flatnonzero(beyond <= self._slack)
        place, column = np.divmod(pairs, max(end - begin, 1))
        return place, self.numbers[begin + column]


def cluster(series: Floats, volumes: Floats, limits: SimilarityLimits) -> Clusters:
    """Run algorithm 1 over rows that are shares of *volumes*, in their order."""
    count = len(series)
    medoids = np.arange(count, dtype=np.int64)
    if count == 0:
        return Clusters(medoids, medoids.copy())
    peaks, deviations = series.max(axis=1), series.std(axis=1)
    stats = np.column_stack((volumes, peaks, deviations))
    allowed = 1.0 - np.array([limits.volume, limits.amplitude, limits.deviation])
    reach = np.sqrt(deviations / limits.k_of(volumes))
    founders: _Founders | None = None
    for begin in range(0, count, _BLOCK):
        rows = np.arange(begin, min(begin + _BLOCK, count))
        best, whom = _nearest(series, stats, allowed, founders, rows)
        within = _distances(series[rows])
        within[~_comparable(stats[rows][:, None], stats[rows], allowed)] = np.inf
        new, count_new = np.zeros(len(rows), dtype=np.int64), 0
        for place in range(len(rows)):
            distance, medoid = best[place], whom[place]
            if count_new:
                near = within[place, new[:count_new]]
                closest = int(near.argmin())
                if near[closest] < distance:
                    distance, medoid = near[closest], rows[new[closest]]
            # 1 / d² > k / deviation
            if distance < reach[rows[place]] ** 2:
                medoids[rows[place]] = medoid
            else:
                new[count_new] = place
                count_new += 1
        if rows[-1] + 1 < count:
            # There are others to be compared with them.
            founders = founders or _Founders(_rotate(series), volumes, reach)
            founders.add(rows[new[:count_new]])
    return Clusters(medoids, np.zeros(count, dtype=np.int64))


def _rotate(series: Floats) -> Floats:
    """Return the first principal axes. Distances over them are never larger than the whole distance."""
    sample = series[:: max(len(series) // 4096, 1)]
    centre = sample.mean(axis=0)
    _, axes = np.linalg.eigh((sample - centre).T @ (sample - centre))
    found: Floats = (series - centre) @ axes[:, ::-1][:, :_AXES]
    return found


def _nearest(
    series: Floats, stats: Floats, allowed: Floats, founders: _Founders | None, rows: Ints
) -> tuple[Floats, Ints]:
    """Return for each of *rows* the squared distance and number of the nearest comparable founder within reach."""
    best, whom = np.full(len(rows), np.inf), np.full(len(rows), -1, dtype=np.int64)
    if founders is None:
        return best, whom
    order = np.argsort(stats[rows, 0], kind="stable")
    for begin in range(0, len(rows), _ROWS):
        part = order[begin : begin + _ROWS]
        place, number = founders.near(rows[part], float(allowed[0]))
        kept = _comparable(stats[rows[part[place]]], stats[number], allowed)
        place, number = part[place[kept]], number[kept]
        for start in range(0, len(place), 1 << 14):
            here, there = place[start : start + (1 << 14)], number[start : start + (1 << 14)]
            squares = ((series[rows[here]] - series[there]) ** 2).sum(axis=1)
            # The nearest of each row comes last and stays; of equals the founder that came first.
            last = np.lexsort((-there, -squares))
            here, there, squares = here[last], there[last], squares[last]
            better = squares < best[here]
            best[here[better]], whom[here[better]] = squares[better], there[better]
    return best, whom


def _comparable(mine: Floats, theirs: Floats, allowed: Floats) -> NDArray[np.bool_]:
    """Return whether volume, amplitude and deviation differ by at most their shares of the larger one."""
    # None is below 0 and no share above 1, so the smaller one need not be known. One measure after the other: to go
    # through threes takes several times as long.
    found = True
    for k, share in enumerate(allowed.tolist()):
        one, other = mine[..., k], theirs[..., k]
        found = (one >= share * other) & (other >= share * one) & found
    return np.asarray(found)


def _distances(series: Floats) -> Floats:
    squares = np.einsum("ij,ij->i", series, series)
    found: Floats = np.maximum(squares[:, None] + squares - 2.0 * series @ series.T, 0.0)
    return found


def merge_shifted(series: Floats, volumes: Floats, clusters: Clusters, limits: SimilarityLimits) -> Clusters:
    """
    Merge clusters whose medoids are alike after a shift.

    What a shift moves beyond the ends of the log cannot be compared. So two series are compared where both exist, as
    shares of what each has there, which must be most of it. Only the founders with most requests are compared. k is not
    scaled here: of a hundred shifts one fits by chance, if a source has few requests.
    """
    medoids, shifts = clusters.medoids.copy(), clusters.shifts.copy()
    founders = np.unique(medoids)
    if limits.shift < 1 or len(founders) < 2:  # noqa: PLR2004
        return Clusters(medoids, shifts)
    busiest = np.lexsort((founders, -volumes[founders]))[:_MOST_SHIFTED]
    founders = np.sort(founders[busiest])
    rows = series[founders]
    stats = np.column_stack((volumes[founders], rows.max(axis=1), rows.std(axis=1)))
    allowed = 1.0 - np.array([limits.volume, limits.amplitude, limits.deviation])
    later, former = np.nonzero(np.tril(_comparable(stats[:, None], stats, allowed), -1))
    beyond, moved = _least_beyond(rows, later, former, limits)
    target: dict[int, tuple[int, int]] = {}
    # Each goes to the nearest of those before it that have not gone elsewhere.
    order = np.lexsort((former, beyond, later))
    for pair in order[beyond[order] < 1.0].tolist():
        one, other = int(later[pair]), int(former[pair])
        if one not in target and other not in target:
            target[one] = (other, int(moved[pair]))
    for one, (other, shift) in target.items():
        inside = clusters.medoids == founders[one]
        medoids[inside], shifts[inside] = founders[other], shift
    return Clusters(medoids, shifts)


def _least_beyond(rows: Floats, later: Ints, former: Ints, limits: SimilarityLimits) -> tuple[Floats, Ints]:
    """
    Return the smallest ratio of distance to allowed distance over all shifts, and the shift, for pairs of *later* and
    *former*.
    """
    points = rows.shape[1]
    near = np.arange(-limits.shift, limits.shift + 1)
    near = near[np.abs(near) < points]
    # So long that no end meets a beginning, and of small factors.
    length = -(-(points + limits.shift) // 32) * 32
    spectra = np.fft.rfft(rows, length, axis=1)
    turned = np.conj(spectra)
    sums, squares = _running(rows), _running(rows**2)
    early, late = _Parts(sums, squares, -near), _Parts(sums, squares, near)
    least, shifts = np.empty(len(later)), np.empty(len(later), dtype=np.int64)
    for begin in range(0, len(later), _PAIRS):
        part = slice(begin, begin + _PAIRS)
        one, other = later[part], former[part]
        products = np.fft.irfft(spectra[other] * turned[one], length, axis=1)[:, near % length]
        mine, theirs = early.shares[one], late.shares[other]
        distance = early.squares[one] + late.squares[other] - 2.0 * products / (mine * theirs)
        beyond = distance * limits.k / early.deviations[one]
        beyond[(theirs < _MOST_OF_IT) | (mine < _MOST_OF_IT)] = np.inf
        best = beyond.argmin(axis=1)
        least[part], shifts[part] = beyond[np.arange(len(best)), best], near[best]
    return least, shifts


def _running(rows: Floats) -> Floats:
    """Return the sums of the first 0, 1, 2, ... points of each row."""
    found = np.zeros((len(rows), rows.shape[1] + 1))
    np.cumsum(rows, axis=1, out=found[:, 1:])
    return found


class _Parts:
    """
    What is left of rows behind the first so many points, or before the last so many (where *cuts* is negative): which
    *shares* of them, and of those, taken as one, the sums of *squares* and the *deviations*. A column for each cut.

    The rows are given by the running *sums* of their points and of the *squares* of these.
    """

    def __init__(self, sums: Floats, squares: Floats, cuts: Ints) -> None:
        points = sums.shape[1] - 1
        begin, end = np.maximum(cuts, 0), np.minimum(points + cuts, points)
        self.shares: Floats = np.maximum(sums[:, end] - sums[:, begin], _SLACK)
        self.squares: Floats = (squares[:, end] - squares[:, begin]) / self.shares**2
        left = end - begin
        self.deviations: Floats = np.sqrt(np.maximum(self.squares / left - 1.0 / left**2, _SLACK**2))


def _aligned(row: Floats, other: Floats, shift: int) -> tuple[Floats, Floats]:
    """Return both series where both exist after moving *row* by *shift* intervals."""
    if shift < 0:
        return row[-shift:], other[:shift]
    return row[: len(row) - shift], other[shift:]


def _correlation(one: Floats, other: Floats) -> float:
    one, other = one - one.mean(), other - other.mean()
    scale = float(np.sqrt((one @ one) * (other @ other)))
    return float(one @ other) / scale if scale > 0 else 1.0


def learn_k(counts: Floats, labels: list[str], *, members: int = 3) -> float | None:
    """
    Learn k from sources with known campaigns, by bisection clustering (section 6.2).

    All series are one cluster, which is halved again and again: each series goes to the nearer of the two that are
    farthest apart. The largest clusters with a single label are the reference. Return the k under which nine of ten
    reference clusters hold together, None if there are none. It is the k of sources with `VOLUME_OF_K` requests.
    """
    series, volumes = _shares(counts)
    larger = np.maximum(VOLUME_OF_K / np.maximum(volumes, 1.0), 1.0)
    needed = []
    waiting = [np.arange(len(series))]
    while waiting:
        inside = waiting.pop()
        if len(inside) < members:
            continue
        distances = _distances(series[inside])
        names = {labels[number] for number in inside}
        if len(names) == 1 and "" not in names:
            medoid = int(distances.sum(axis=1).argmin())
            others = np.arange(len(inside)) != medoid
            far = np.maximum(distances[medoid][others], np.finfo(np.float64).tiny)
            likeness = series[inside].std(axis=1)[others] / far
            needed.append(float((likeness * larger[inside][others]).min()))
            continue
        one, other = np.unravel_index(int(distances.argmax()), distances.shape)
        if distances[one, other] <= 0:
            continue
        nearer = distances[one] <= distances[other]
        waiting += [inside[nearer], inside[~nearer]]
    return float(np.quantile(needed, 0.1)) if needed else None
