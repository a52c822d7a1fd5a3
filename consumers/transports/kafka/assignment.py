"""Which member of a group runs which shard, and which ones follow it. No I/O.

The leader of the group computes it at each rebalance (`assignor.py`). The shards are balanced: no
member runs two more than another one. Among the balanced assignments, members keep their shards,
and a shard without an owner goes to a member that follows it.

So the members that follow a shard are chosen by the question who would get it: its first follower
is the member to which the same rules give it when its owner leaves, the second one when both leave.

A shard moves only to a member that has followed it to the end of its journal. Until then its owner
keeps it, or without one a member that has a warm copy; it may run more shards than its part. A
shard of which nobody has a warm copy goes to its next owner at once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Holding", "Share", "assign"]

Followers = Mapping[int, Sequence[str]]  # of each shard, the next owner first


@dataclass(frozen=True, slots=True)
class Holding:
    """What a member has before a rebalance.

    `follows` has for each shard its place among the followers of the shard, 0 for the next owner.
    `warm` are the shards that it has followed to the end of their journals. None: it does not
    report them, and gets shards at once. `awaits` as in `Share`.
    """

    runs: frozenset[int] = frozenset()
    follows: Mapping[int, int] = field(default_factory=dict)
    generation: int = -1
    warm: frozenset[int] | None = None
    awaits: frozenset[int] = frozenset()

    def has_copy(self, shard: int) -> bool:
        """Whether it is known to have a warm copy."""
        return self.warm is not None and shard in self.warm


@dataclass(frozen=True, slots=True)
class Share:
    """What a member gets. `follows` as in `Holding`; `awaits` are those that it will run once it
    has reached the end of their journals and joined again."""

    runs: frozenset[int]
    follows: Mapping[int, int]
    awaits: frozenset[int] = frozenset()


def assign(members: Mapping[str, Holding], shards: int, standbys: int) -> dict[str, Share]:
    """The share of each member.

    Parameters
    ----------
    members
        What each member has, by its id.
    shards
        Number of shards.
    standbys
        How many members follow each shard, as far as there are so many others.

    Notes
    -----
    A shard that moves between two living members is in no share until its old owner has released
    it and joined again. Its next owner follows it before and meanwhile.

    Examples
    --------
    >>> first = assign({"a": Holding(), "b": Holding()}, 2, 1)
    >>> {m: (sorted(share.runs), dict(share.follows)) for m, share in first.items()}
    {'a': ([0], {1: 0}), 'b': ([1], {0: 0})}
    >>> assign({"b": Holding(first["b"].runs, first["b"].follows)}, 2, 1)["b"].runs
    frozenset({0, 1})
    """
    present = _owners(members)
    known, cold = _followers(members), _cold(members, shards)
    # What is awaited is given away first, so that no copy is loaded in vain.
    awaited = frozenset[int]().union(*(held.awaits for held in members.values()))
    kept = {
        m: sorted(of, key=lambda n: (n in awaited, n)) for m, of in _runs(present, members).items()
    }
    owners = _balanced(kept, range(shards), known, cold, Counter())
    chosen = _chosen(owners, members, known, cold, standbys)
    runs: dict[str, set[int]] = {member: set() for member in members}
    follows: dict[str, dict[int, int]] = {member: {} for member in members}
    awaits: dict[str, set[int]] = {member: set() for member in members}
    holders = _holders(owners, present, members, cold)
    for shard, owner in owners.items():
        holder = holders[shard]
        waits = holder != owner and (shard, owner) in cold
        following = [owner] * (holder != owner) + chosen[shard]
        if holder == owner or waits:
            runs[holder].add(shard)
        if waits:
            awaits[owner].add(shard)
            # A warm copy stays until there is another one.
            warm = [m for m in known.get(shard, ()) if members[m].has_copy(shard)]
            following += [m for m in warm if m not in (*following, holder)][:1]
        for place, member in enumerate(following):
            if member != holder or not waits:
                follows[member][shard] = place
    return {m: Share(frozenset(runs[m]), follows[m], frozenset(awaits[m])) for m in members}


def _owners(members: Mapping[str, Holding]) -> dict[int, str]:
    """The owner of each shard that has one. A member that missed a rebalance may be mistaken."""
    by_generation = sorted(members, key=lambda m: (members[m].generation, m))
    return {shard: m for m in by_generation for shard in members[m].runs}


def _holders(
    owners: Mapping[int, str],
    present: Mapping[int, str],
    members: Mapping[str, Holding],
    cold: Collection[tuple[int, str]],
) -> dict[int, str]:
    """Who runs each shard until its owner is warm: who has it, or else who has a warm copy."""
    ready = {n: m for n, m in owners.items() if n in present or (n, m) not in cold}
    holders = {n: present.get(n, m) for n, m in ready.items()}
    load = Counter(holders.values())
    for shard in sorted(owners.keys() - holders.keys()):
        warm = [m for m, held in members.items() if held.has_copy(shard)]
        holders[shard] = min(warm or [owners[shard]], key=lambda m: (load[m], m))
        load[holders[shard]] += 1
    return holders


def _followers(members: Mapping[str, Holding]) -> dict[int, list[str]]:
    """The present followers of each shard."""
    each = [(place, m, n) for m, held in members.items() for n, place in held.follows.items()]
    followers: dict[int, list[str]] = defaultdict(list)
    for _, member, shard in sorted(each):
        followers[shard].append(member)
    return followers


def _cold(members: Mapping[str, Holding], shards: int) -> frozenset[tuple[int, str]]:
    """Shards with the members that would have to load them."""
    return frozenset(
        (n, m)
        for m, held in members.items()
        if held.warm is not None
        for n in range(shards)
        if n not in held.warm
    )


def _runs(owners: Mapping[int, str], members: Iterable[str]) -> dict[str, list[int]]:
    """The shards of each of these members."""
    runs: dict[str, list[int]] = {member: [] for member in members}
    for shard, owner in sorted(owners.items()):
        if owner in runs:
            runs[owner].append(shard)
    return runs


def _balanced(
    runs: Mapping[str, Sequence[int]],
    shards: Collection[int],
    followers: Followers,
    cold: Collection[tuple[int, str]],
    burden: Mapping[str, int],
) -> dict[int, str]:
    """An owner for each shard. `burden` is the number of shards that each member follows."""
    least, larger = divmod(len(shards), len(runs))  # so many members have one more than the least
    owners: dict[int, str] = {}
    load: dict[str, int] = {}
    for member in sorted(runs, key=lambda m: (-len(runs[m]), m)):
        kept = [shard for shard in runs[member] if shard in shards]
        kept = kept[: least + (larger > 0)]
        larger -= len(kept) > least
        load[member] = len(kept)
        owners |= dict.fromkeys(kept, member)

    def room() -> list[str]:
        return [m for m, n in load.items() if n < least or (n == least and larger > 0)]

    def give(shard: int, member: str) -> None:
        nonlocal larger
        larger -= load[member] == least
        load[member] += 1
        owners[shard] = member

    orphans = [shard for shard in shards if shard not in owners]
    # First all next owners, so that no other shard takes their room.
    wishes = sorted(
        ((n, m) in cold, place, n, m)
        for n in orphans
        for place, m in enumerate(followers.get(n, ()))
    )
    for *_, shard, member in wishes:
        if shard not in owners and member in room():
            give(shard, member)
    for shard in orphans:
        if shard not in owners:
            give(shard, min(room(), key=lambda m: (load[m], burden.get(m, 0), m)))
    return owners


def _chosen(
    owners: Mapping[int, str],
    members: Collection[str],
    known: Followers,
    cold: Collection[tuple[int, str]],
    standbys: int,
) -> dict[int, list[str]]:
    """The followers of each shard, the next owner first."""
    chosen: dict[int, list[str]] = {shard: [] for shard in owners}
    burden: Counter[str] = Counter()
    count = min(standbys, len(members) - 1)
    most = -(-len(owners) * count // len(members))  # of each member, if all follow equally many
    for _ in range(count):
        together: dict[frozenset[str], list[int]] = defaultdict(list)
        for shard, owner in owners.items():
            together[frozenset([owner, *chosen[shard]])].append(shard)
        for gone, shards in together.items():
            left = [member for member in members if member not in gone]
            # Who follows a shard continues to, unless that is more than its part of the work.
            keeping = {n: [m for m in known.get(n, ()) if burden[m] < most] for n in shards}
            successors = _balanced(_runs(owners, left), owners.keys(), keeping, cold, burden)
            for shard in shards:
                chosen[shard].append(successors[shard])
                burden[successors[shard]] += 1
    return chosen
