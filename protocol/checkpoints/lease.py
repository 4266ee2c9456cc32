"""When a coordinator must verify that it still owns its job, before it does anything else.

A process can stop for any time (SIGSTOP, a suspended machine, a hypervisor that moves it) without noticing.
Meanwhile its node counts as dead, and a successor runs the job. Storage fences what must be exact
(`coordinator/checkpoints/checkpoint_store.py`); the lease keeps a coordinator that was stopped from acting on
what it knew before: after a silence of its own that is longer than the lease it may no longer be the owner.

The idea is that of leases (Gray and Cheriton, 1989), with one difference: the lease itself proves nothing to
others, so clocks of different machines are never compared.
"""

from __future__ import annotations


class Lease:
    """What one coordinator may do without asking storage again.

    A look at storage renews the lease from the moment it was *begun*: an answer may arrive long after it was
    true.

    Args:
        duration_ms: How long a look at storage counts, and how long the coordinator's loop may be silent.
        now_ms: The moment at which it became the owner.
    """

    def __init__(self, duration_ms: int, now_ms: int) -> None:
        self._duration_ms = duration_ms
        self._verified_ms = now_ms
        self._awake_ms = now_ms
        self._is_uncertain = False
        self._is_lost = False

    @property
    def is_uncertain(self) -> bool:
        """Whether the coordinator was silent for longer than the lease, and has not verified since."""
        return self._is_uncertain

    @property
    def is_lost(self) -> bool:
        """Whether another coordinator owns the job. That is final."""
        return self._is_lost

    def awake(self, now_ms: int) -> None:
        """The coordinator runs. If it did not for longer than the lease, it verifies before it acts."""
        if now_ms - self._awake_ms > self._duration_ms:
            self._is_uncertain = True
        self._awake_ms = max(self._awake_ms, now_ms)

    def is_due(self, now_ms: int) -> bool:
        """Whether storage is to be asked now."""
        return not self._is_lost and (self._is_uncertain or not self._is_fresh(now_ms))

    def verified(self, asked_ms: int, now_ms: int) -> None:
        """Storage answered that the coordinator owns the job.

        Args:
            asked_ms: When it was asked.
            now_ms: When its answer was there. An answer that is older than the lease counts for nothing.
        """
        self.awake(now_ms)
        if now_ms - asked_ms <= self._duration_ms:
            self._verified_ms = asked_ms
            self._is_uncertain = False

    def lost(self) -> None:
        """Storage answered that another coordinator owns the job."""
        self._is_lost = True

    def allows(self, now_ms: int, is_final: bool) -> bool:
        """Whether the coordinator may act.

        Args:
            now_ms: The time.
            is_final: Whether it is about to deploy or to end the job. While storage cannot be reached, a
                coordinator that was never silent continues with everything else.
        """
        if self._is_lost or self._is_uncertain:
            return False
        return not is_final or self._is_fresh(now_ms)

    def _is_fresh(self, now_ms: int) -> bool:
        return now_ms - self._verified_ms <= self._duration_ms
