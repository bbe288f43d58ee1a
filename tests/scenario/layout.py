"""Places of ranks: hosts, coordinates in the parallel layout, and communicators."""
import collections

Group = collections.namedtuple("Group", "key name members between_hosts")
Coordinates = collections.namedtuple("Coordinates", "dp pp cp tp")


class Layout:
    """Numbers ranks as Megatron does: tensor ranks are adjacent, then come context, data and pipeline ranks.
    Expert groups are blocks of data ranks."""

    def __init__(self, dp=1, pp=1, tp=1, cp=1, ep=1, per_host=8):
        self.dp, self.pp, self.tp, self.cp, self.ep, self.per_host = dp, pp, tp, cp, ep, per_host
        self.world = dp * pp * tp * cp
        self.hosts = (self.world + per_host - 1) // per_host
        self.groups = []
        self.at = [Coordinates(r // (tp * cp) % dp, r // (tp * cp * dp), r // tp % cp, r % tp) for r in range(self.world)]
        self.world_group = self._group("world", range(self.world))
        self.tp_of, self.cp_of, self.dp_of, self.pp_of, self.ep_of = ([-1] * self.world for _ in range(5))
        if tp > 1:
            self._split("tp", self.tp_of, lambda c: (c.pp, c.dp, c.cp))
        if cp > 1:
            self._split("cp", self.cp_of, lambda c: (c.pp, c.dp, c.tp))
        if dp > 1:
            self._split("dp", self.dp_of, lambda c: (c.pp, c.cp, c.tp))
        if pp > 1:
            self._split("pp", self.pp_of, lambda c: (c.dp, c.cp, c.tp))
        if ep > 1:
            self._split("ep", self.ep_of, lambda c: (c.pp, c.dp // ep, c.cp, c.tp))

    def host(self, rank):
        return rank // self.per_host

    def ranks_of_host(self, host):
        return [r for r in range(self.world) if self.host(r) == host]

    def ranks_of_stage(self, stage):
        return [r for r in range(self.world) if self.at[r].pp == stage]

    def way(self, group, pair):
        """Returns the path from the first rank of the pair to the second, as a group of two."""
        return Group(f"{group.key}/{pair[0]}-{pair[1]}", group.name, list(pair), self.host(pair[0]) != self.host(pair[1]))

    def _split(self, name, index, key):
        """Makes one group for each value of `key`. A data group with all ranks uses the communicator of the
        world."""
        members = collections.OrderedDict()
        for rank, coordinates in enumerate(self.at):
            members.setdefault(key(coordinates), []).append(rank)
        for number, ranks in enumerate(members.values()):
            group = self.world_group if len(ranks) == self.world else self._group(f"{name}.{number}", ranks)
            for rank in ranks:
                index[rank] = group

    def _group(self, key, members):
        members = list(members)
        between = len({self.host(r) for r in members}) > 1
        self.groups.append(Group(key, key.split(".")[0], members, between))
        return len(self.groups) - 1
