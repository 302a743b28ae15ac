"""Hands tests to the workers, as ``--dist loadgroup`` does, in the same time for the last test as for the first.

xdist's own scheduler looks through all that a worker has done, for each test that ends: of thirteen thousand tests that
took a quarter of a minute of the process that the workers wait for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdist.scheduler import LoadGroupScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController


class GroupScheduling(LoadGroupScheduling):
    """``LoadGroupScheduling`` that forgets a group when its last test has ended, and knows the place of each test."""

    _places: dict[str, int] | None = None

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Mark a test as ended."""
        name = self.registered_collections[node][item_index]
        scope = self._split_scope(name)
        group = self.assigned_work[node][scope]
        group[name] = True
        if all(group.values()):
            del self.assigned_work[node][scope]
        self._reschedule(node)

    def _assign_work_unit(self, node: WorkerController) -> None:
        scope, group = self.workqueue.popitem(last=False)
        self.assigned_work[node][scope] = group
        if self._places is None:  # every worker has collected the same
            self._places = {name: place for place, name in enumerate(self.registered_collections[node])}
        node.send_runtest_some([self._places[name] for name, has_ended in group.items() if not has_ended])
