"""Which complete groups a step takes: the orders in which the queue of the trainer is served."""

from collections import OrderedDict
from heapq import heappop, heappush

ORDERS = ("completion", "submission", "window", "freshest")


def queue_of(order: str, window: int) -> "Completion":
    """An empty queue that is served in this order, where groups are numbered in the order of opening."""
    if order == "freshest":
        return Freshest()
    return Completion() if order == "completion" else Window(window if order == "window" else 1)


class Completion:
    """Complete groups that wait, of which the one that entered first is taken first."""

    def __init__(self) -> None:
        self.entered: OrderedDict[int, int] = OrderedDict()  # group -> read version

    def __len__(self) -> int:
        return len(self.entered)

    @property
    def ready(self) -> int:
        """Groups that a step may take now."""
        return len(self.entered)

    @property
    def first(self) -> int:
        """The group that entered first."""
        return next(iter(self.entered))

    def enter(self, group: int, read_version: int) -> None:
        """Add a group that is complete."""
        self.entered[group] = read_version

    def discard(self, group: int) -> None:
        """Forget a group that was dropped, whether it has entered or not."""
        self.entered.pop(group, None)

    def take(self, groups: int) -> list[int]:
        """Remove and return the groups of a step."""
        return [self.entered.popitem(last=False)[0] for _ in range(groups)]


class Freshest(Completion):
    """The group with the largest read version is taken first, and ties go to the one that entered first."""

    def __init__(self) -> None:
        super().__init__()
        self._heap: list[tuple[int, int, int]] = []
        self._entries = 0

    def enter(self, group: int, read_version: int) -> None:
        """Add a group that is complete."""
        super().enter(group, read_version)
        self._entries += 1
        heappush(self._heap, (-read_version, self._entries, group))

    def take(self, groups: int) -> list[int]:
        """Remove and return the groups of a step."""
        taken: list[int] = []
        while len(taken) < groups:
            group = heappop(self._heap)[2]
            if group in self.entered:  # those that were dropped remain in the heap
                del self.entered[group]
                taken.append(group)
        return taken


class Window(Completion):
    """Complete groups move into a list, again and again the oldest among the W from the oldest that has not moved.

    Steps take the groups of the list in turn. With W = 1 they take them in the order of opening.
    """

    def __init__(self, window: int) -> None:
        super().__init__()
        self._window = window
        self._complete: list[int] = []  # a heap of groups that are not in the list
        self._list: OrderedDict[int, None] = OrderedDict()
        self._oldest = 0  # every group below this number has moved or was dropped
        self._moved: set[int] = set()  # and these

    @property
    def ready(self) -> int:
        """Groups that a step may take now."""
        return len(self._list)

    def enter(self, group: int, read_version: int) -> None:
        """Add a group that is complete."""
        super().enter(group, read_version)
        heappush(self._complete, group)
        self._move()

    def discard(self, group: int) -> None:
        """Forget a group that was dropped, whether it has entered or not."""
        super().discard(group)
        if group in self._list:
            del self._list[group]
        else:
            self._moved.add(group)
        self._move()

    def take(self, groups: int) -> list[int]:
        """Remove and return the groups of a step."""
        taken = [self._list.popitem(last=False)[0] for _ in range(groups)]
        for group in taken:
            del self.entered[group]
        return taken

    def _move(self) -> None:
        while True:
            while self._oldest in self._moved:
                self._moved.remove(self._oldest)
                self._oldest += 1
            while self._complete and self._complete[0] not in self.entered:
                heappop(self._complete)
            if not self._complete or self._complete[0] >= self._oldest + self._window:
                return
            group = heappop(self._complete)
            self._list[group] = None
            self._moved.add(group)
