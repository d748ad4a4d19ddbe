"""What a node and an edge of the event graph can be, and the words for an edge's reason.

Imports the standard library and zerosim's L0.
"""

from __future__ import annotations

from enum import StrEnum

from zerosim.events import Phase


class NodeKind(StrEnum):
    """What a node stands for."""

    PHASE = "phase"
    """A phase begins on a rank; the last one of an iteration is its end."""
    COMPUTE = "compute"
    """A unit's forward, backward or update; one that was interrupted has a node for each piece."""
    WAIT = "wait"
    """The program waited; the node is the moment at which it continued."""
    CALL = "call"
    """A rank's arrival at a collective."""
    MATCH = "collective"
    """The collective of all its ranks: from the last arrival to the last end."""
    SEND = "send"
    """A message of a collective leaves a rank."""
    RECEIVE = "receive"
    """It has arrived at another."""
    COPY = "copy"
    """Bytes of a rank on their way from one of its tiers to another."""
    MARK = "mark"
    """What takes part in no path: a mark, a call inside of a collective."""


class EdgeKind(StrEnum):
    """Why one node follows another: the four sorts of reason."""

    ORDER = "program order"
    MATCH = "match"
    MESSAGE = "message"
    LIFETIME = "tensor lifetime"


class Reason(StrEnum):
    """Why one node follows another, in words; {unit}, {ranks} and the like are filled in."""

    NEXT = "rank {target_rank} continues"
    ASKED = "rank {target_rank} asks for it"
    THREAD = "the collectives' thread of rank {target_rank} is free"
    ARRIVES = "rank {source_rank} has arrived"
    OVER = "it completes on rank {target_rank}"
    FIRST_HOP = "rank {target_rank} begins to send and to receive"
    LAST_HOP = "its last message on rank {target_rank} completes"
    MESSAGE = "message from rank {source_rank} to rank {target_rank}"
    PASSED_ON = "rank {target_rank} passes shard {shard} on"
    INITIAL = "{target_unit} computes with its initial parameters"
    GATHERED = "{target_unit} computes with gathered parameters"
    SAVED = "activations of {target_unit} were saved for backward"
    GRADIENTS = "gradients of {source_unit} are reduced"
    REDUCED = "reduced gradients of {target_unit} are applied"
    UPDATED = "new parameters of {source_unit} are gathered"
    UPDATED_IN_PLACE = "new parameters of {source_unit} are used"
    UPDATER = "the updating thread of rank {target_rank} is free"
    COPIER = "the copying thread of rank {target_rank} is free"
    MOVED_ON = "{source_unit} continues to the next tier"
    UPDATED_FETCHED = "new parameters of {source_unit} are fetched"
    STORED = "stored values of {source_unit} are fetched"
    FETCHED = "fetched parameters of {target_unit} are gathered"
    FETCHED_ALONE = "{target_unit} computes with fetched parameters"
    REDUCED_LEAVES = "reduced gradients of {target_unit} leave the device"
    OFFLOADED = "offloaded gradients of {target_unit} are applied"
    STATES = "fetched optimizer states of {target_unit} are updated"
    UPDATED_LEAVES = "new values of {source_unit} go to where they are kept"
    RETURNED = "returned parameters of {source_unit} are gathered"
    RETURNED_IN_PLACE = "returned parameters of {source_unit} are used"
    CHECKPOINT_BACK = "{target_unit} is recomputed from its checkpoint"


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
