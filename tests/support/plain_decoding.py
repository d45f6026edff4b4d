"""What decoders maximise, by plain loops over the arguments of `lattice`: nothing is read from a lattice."""

from itertools import product

import numpy as np

BLANK = -1


class PlainBoard:
    """Steps, candidates and rules as they were given, and the value of any choice."""

    def __init__(
        self, unary, groups, pair, *, items=None, blank=None, locks=None, held=(), allow_repeats=False
    ):
        steps, width = np.shape(unary)
        self.unary = [[float(nats) for nats in row] for row in unary]
        self.items = [
            [int(items[s][c]) if items is not None else c for c in range(width)] for s in range(steps)
        ]
        self.groups = [int(group) for group in groups]
        self.table = pair.table.tolist() if hasattr(pair, "table") else np.zeros((len(groups),) * 2).tolist()
        self.blank = [-np.inf] * steps if blank is None else [float(nats) for nats in blank]
        self.locks, self.held, self.allow_repeats = dict(locks or {}), set(held), allow_repeats
        shown = [(s, c) for s, c in self.locks.items() if c is not None]
        self.taken = {self.groups[self.items[s][c]] for s, c in shown}
        self.pinned = {self.items[s][c] for s, c in shown if s not in self.held}

    def banned(self, step, column):
        """Whether a step may not show a candidate, locks apart."""
        used = self.groups[self.items[step][column]] in self.taken and not self.allow_repeats
        return self.unary[step][column] == -np.inf or (used and self.locks.get(step) is None)

    def options(self, step):
        """Columns that a step may have, `BLANK` among them."""
        if step in self.locks:
            return [BLANK if self.locks[step] is None else self.locks[step]]
        blank = [] if self.blank[step] == -np.inf else [BLANK]
        return blank + [c for c in range(len(self.unary[step])) if not self.banned(step, c)]

    def impossible(self):
        """Whether a step is left with nothing, not even what it is locked to."""
        return any(
            not self.options(s) or (self.locks.get(s) is not None and self.banned(s, self.locks[s]))
            for s in range(len(self.unary))
        )

    def choices(self):
        """Every choice that obeys the locks; some break the rule against repeats."""
        return product(*[self.options(s) for s in range(len(self.unary))])

    def anchors(self):
        """Pictures that may be the latent one: the pinned ones, else whatever some step could show."""
        if self.pinned:
            return sorted(self.pinned)
        free = [s for s in range(len(self.unary)) if s not in self.locks or s in self.held]
        return sorted(
            {self.items[s][c] for s in free for c in range(len(self.unary[s])) if not self.banned(s, c)}
        )

    def world(self, picture):
        """Mean of what the pinned pictures say for another one."""
        if not self.pinned or picture in self.pinned:
            return 0.0
        return sum(self.table[picture][pin] for pin in self.pinned) / len(self.pinned)

    def value(self, decoder, columns, anchor=None):
        """Nats of one choice; −inf when it is not allowed. Without an anchor no picture is the latent one."""
        total, seen = 0.0, set()
        neighbours = decoder in {"chain", "beam", "greedy"}
        for s, c in enumerate(columns):
            if c not in self.options(s):
                return -np.inf
            if c == BLANK:
                # whoever asks for a blank where none was priced gets one for nothing
                total += 0.0 if self.blank[s] == -np.inf else self.blank[s]
                continue
            picture = self.items[s][c]
            group = self.groups[picture]
            if s not in self.locks and not self.allow_repeats:
                if group in seen:
                    return -np.inf
                seen.add(group)
            total += self.unary[s][c]
            if neighbours:
                total += self.world(picture)
                if s and columns[s - 1] != BLANK:
                    total += self.table[self.items[s - 1][columns[s - 1]]][picture]
            if decoder == "anchor" and anchor is not None:
                total += self.table[picture][anchor]
        return total

    def best(self, decoder, step=None, column=None):
        """Value of the best choice, or of the best in which a step has a column; −inf where there is none."""
        latent = (decoder == "anchor" and self.anchors()) or [None]
        return max(
            (
                self.value(decoder, chosen, anchor)
                for chosen in self.choices()
                if step is None or chosen[step] == column
                for anchor in latent
            ),
            default=-np.inf,
        )
