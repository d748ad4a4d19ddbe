"""The kinds of nodes and edges of the event graph, and words for an edge's reason."""

from __future__ import annotations

from enum import StrEnum

from zerosim.analysis.graph.wording import said
from zerosim.schema.events import Phase


class NodeKind(StrEnum):
    """The kind of a node."""

    PHASE = "phase"
    """A phase begins on a rank; the last one of an iteration is its end."""
    COMPUTE = "compute"
    """A unit's forward, backward or update; one that was interrupted has a node for each piece."""
    WAIT = "wait"
    """The program waited; the node is the moment at which it continued."""
    CALL = "call"
    """A rank's arrival at a collective."""
    MATCH = "collective"
    """The collective over all its ranks: from the last arrival to the last end."""
    SEND = "send"
    """A message of a collective is sent by a rank."""
    RECEIVE = "receive"
    """The message has arrived at another rank."""
    COPY = "copy"
    """A copy between the tiers of a rank."""
    MARK = "mark"
    """Events on no path: a mark, a call within a collective."""


class EdgeKind(StrEnum):
    """The four kinds of reasons why one node follows another."""

    ORDER = "program order"
    MATCH = "match"
    MESSAGE = "message"
    LIFETIME = "tensor lifetime"


class Reason(StrEnum):
    """Why one node follows another."""

    NEXT = "next"
    ASKED = "asked"
    THREAD = "thread"
    ARRIVES = "arrives"
    OVER = "over"
    FIRST_HOP = "first_hop"
    LAST_HOP = "last_hop"
    MESSAGE = "message"
    PASSED_ON = "passed_on"
    INITIAL = "initial"
    GATHERED = "gathered"
    SAVED = "saved"
    GRADIENTS = "gradients"
    REDUCED = "reduced"
    UPDATED = "updated"
    UPDATED_IN_PLACE = "updated_in_place"
    UPDATER = "updater"
    COPIER = "copier"
    MOVED_ON = "moved_on"
    UPDATED_FETCHED = "updated_fetched"
    STORED = "stored"
    FETCHED = "fetched"
    FETCHED_ALONE = "fetched_alone"
    REDUCED_LEAVES = "reduced_leaves"
    OFFLOADED = "offloaded"
    STATES = "states"
    UPDATED_LEAVES = "updated_leaves"
    RETURNED = "returned"
    RETURNED_IN_PLACE = "returned_in_place"
    CHECKPOINT_BACK = "checkpoint_back"

    @property
    def words(self) -> str:
        """The reason in words, with placeholders such as {target_unit}."""
        reasons: dict[str, str] = said.table["reasons"]
        return reasons[self]


EDGE_KINDS: dict[Reason, EdgeKind] = {
    Reason.NEXT: EdgeKind.ORDER,
    Reason.ASKED: EdgeKind.ORDER,
    Reason.THREAD: EdgeKind.ORDER,
    Reason.ARRIVES: EdgeKind.MATCH,
    Reason.OVER: EdgeKind.MATCH,
    Reason.FIRST_HOP: EdgeKind.ORDER,
    Reason.LAST_HOP: EdgeKind.ORDER,
    Reason.MESSAGE: EdgeKind.MESSAGE,
    Reason.PASSED_ON: EdgeKind.LIFETIME,
    Reason.INITIAL: EdgeKind.LIFETIME,
    Reason.GATHERED: EdgeKind.LIFETIME,
    Reason.SAVED: EdgeKind.LIFETIME,
    Reason.GRADIENTS: EdgeKind.LIFETIME,
    Reason.REDUCED: EdgeKind.LIFETIME,
    Reason.UPDATED: EdgeKind.LIFETIME,
    Reason.UPDATED_IN_PLACE: EdgeKind.LIFETIME,
    Reason.UPDATER: EdgeKind.ORDER,
    Reason.COPIER: EdgeKind.ORDER,
    Reason.MOVED_ON: EdgeKind.LIFETIME,
    Reason.UPDATED_FETCHED: EdgeKind.LIFETIME,
    Reason.STORED: EdgeKind.LIFETIME,
    Reason.FETCHED: EdgeKind.LIFETIME,
    Reason.FETCHED_ALONE: EdgeKind.LIFETIME,
    Reason.REDUCED_LEAVES: EdgeKind.LIFETIME,
    Reason.OFFLOADED: EdgeKind.LIFETIME,
    Reason.STATES: EdgeKind.LIFETIME,
    Reason.UPDATED_LEAVES: EdgeKind.LIFETIME,
    Reason.RETURNED: EdgeKind.LIFETIME,
    Reason.RETURNED_IN_PLACE: EdgeKind.LIFETIME,
    Reason.CHECKPOINT_BACK: EdgeKind.LIFETIME,
}

NODE_KINDS = tuple(NodeKind)
REASONS = tuple(Reason)
PHASES = tuple(Phase)
NODE_CODES = {kind: code for code, kind in enumerate(NODE_KINDS)}
REASON_CODES = {reason: code for code, reason in enumerate(REASONS)}
PHASE_CODES = {phase: code for code, phase in enumerate(PHASES)}
