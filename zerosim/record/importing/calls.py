"""The calls of a rank: operation, group, size and time of the data movement.

Calls of every backend pass through PyTorch's dispatcher as `c10d` operators, which therefore define
the calls.
NCCL adds details in a record nested in the operator (`record_param_comms`) and moves bytes in a
kernel linked to that record. Gloo records sizes in a span of its own thread without a link: the
k-th call of a kind and size is the k-th such span. Information that neither has is not recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from zerosim.record.importing.kineto import NATIVE, OPERATOR, RECORD, KinetoProfile
from zerosim.record.importing.natives import OPERATIONS, RECORDED
from zerosim.record.importing.spans import ProfileSpan
from zerosim.record.importing.values import (
    all_sizes,
    bytes_of,
    counted,
    dtype_of,
    listed,
    number_at,
    ranks_in,
    sizes_at,
    type_at,
)
from zerosim.schema.c10d import OPERATORS, C10dOperator
from zerosim.schema.events import Op

_WITHOUT_PAYLOAD = (Op.BARRIER,)
_FOR_EACH_OUTPUT = {
    "c10d::allgather_": 1,
    "c10d::allgather_coalesced_": 1,
    "c10d::reduce_scatter_": 0,
}
"""Lists of lists are not recorded; for these operators the other argument, one equal part, is."""
_GIVEN_IS_PAYLOAD = (Op.ALL_REDUCE, Op.BROADCAST, Op.REDUCE, Op.REDUCE_SCATTER)
"""Operations for which the size in a backend's span is the payload."""
_MOST_BYTES = 2**62
MESSAGE_BYTES = "Message size [bytes]"
"""The units of sizes in NCCL's own records: those of one rank's part, if there are parts."""
_OF_PARTS = (Op.ALL_GATHER, Op.REDUCE_SCATTER, Op.GATHER, Op.SCATTER)
_MESSAGES = (Op.SEND, Op.RECEIVE)
SOURCE = "source line"
"""A line of the program, if the recorder keeps lines."""
_DEFAULT = "default_pg"


@dataclass(slots=True, kw_only=True)
class ImportedCall:
    """One call of a rank.

    Attributes:
        span: span of the operator, on the calling thread.
        carried: start and end of the data movement; None if not recorded.
        backend: its backend.
        group: name of the group; "" if not recorded; `ranks` is then empty.
        peer: global rank of the other end, or of the root; None if there is none.
        elements: None if not recorded; `dtype` is then "".
        sequence: the backend's own count of the group's calls; None if it has none.
        size_bytes: the payload, if recorded in bytes without a dtype.
        source: line of the program; "" if not recorded.
    """

    op: Op
    span: ProfileSpan
    backend: str
    carried: ProfileSpan | None = None
    group: str = ""
    ranks: tuple[int, ...] = ()
    peer: int | None = None
    dtype: str = ""
    elements: int | None = None
    parts: tuple[int, ...] = ()
    received_parts: tuple[int, ...] = ()
    sequence: int | None = None
    size_bytes: int | None = None
    source: str = ""

    @property
    def payload_bytes(self) -> int | None:
        """The payload in bytes; None if it is not recorded."""
        if self.op in _WITHOUT_PAYLOAD:
            return 0
        if self.size_bytes is None and (self.elements is None or not self.dtype):
            return None
        size = self.size_bytes or 0
        if self.size_bytes is None:
            size = (self.elements or 0) * bytes_of(self.dtype)
        return size if size < _MOST_BYTES else None  # larger than any memory


def asked_for(profile: KinetoProfile) -> Iterator[ImportedCall]:
    """The calls of a rank in order of issue, without the times of their data movement."""
    for span in profile.spans:
        if span.name.startswith(OPERATOR):
            operator = OPERATORS.get(span.name, C10dOperator(Op.UNKNOWN, None, 0, name=span.name))
            if operator is not None and not any(
                one.name.startswith(OPERATOR) for one in span.around()
            ):
                yield _of_operator(profile, span, operator)
        elif span.name == RECORD and not any(
            one.name.startswith((OPERATOR, RECORD)) for one in span.around()
        ):
            call = _of_record(profile, span)
            if call is not None:
                yield call


def hidden(profile: KinetoProfile) -> Iterator[ImportedCall]:
    """Data movement without a record: its kind, size and group are unknown."""
    for span in profile.hidden:
        yield ImportedCall(op=Op.UNKNOWN, span=span, backend="")


def _of_operator(profile: KinetoProfile, span: ProfileSpan, operator: C10dOperator) -> ImportedCall:
    record = next((one for one in span.within() if one.name == RECORD), None)
    native = _native_in(span)
    call = ImportedCall(op=operator.op, span=span, backend=_backend(record, native))
    _add_dims(call, operator, native)
    if record is not None:
        _add_record(profile, call, record)
    if not call.group:
        call.group, call.ranks = _only_group(profile, call.backend, _group_size(span, operator))
    if call.elements is None and operator.payload is not None:
        _add_from_parts(call, span, operator)
    if operator.peer is not None and call.peer is None:
        place = number_at(span.args, operator.peer)
        if place is not None and place < len(call.ranks):
            call.peer = call.ranks[place]
    return call


def _of_record(profile: KinetoProfile, span: ProfileSpan) -> ImportedCall | None:
    """A call without an operator: before PyTorch 2.0, or from a dump; "wait" is not one."""
    known = RECORDED.get(str(span.args.get("Collective name")))
    if known is not None:
        backend = "gloo" if profile.backend == "gloo" else "nccl"
        call = ImportedCall(op=known[0], span=span, backend=backend)
        _add_record(profile, call, span)
        return call
    native = _native_in(span)
    op = None if native is None else OPERATIONS.get(native.name.partition(":")[2])
    if native is None or op is None:
        return None
    shapes = all_sizes(native.args) if op in (*_GIVEN_IS_PAYLOAD, Op.ALL_TO_ALL) else None
    elements = None if shapes is None else sum(prod(shape) for shape in shapes)
    call = ImportedCall(op=op, span=span, backend=_backend(span, native), elements=elements)
    call.dtype = type_at(native.args, 0)
    call.group, call.ranks = _only_group(profile, call.backend, None)
    return call


def _native_in(span: ProfileSpan) -> ProfileSpan | None:
    """The backend's record within a call."""
    return next((one for one in span.within() if one.name.startswith(NATIVE)), None)


def _backend(record: ProfileSpan | None, native: ProfileSpan | None) -> str:
    """The backend of a call: Gloo runs on a separate thread, without a record in the call."""
    if native is not None:
        return native.name.partition(":")[0]
    return "gloo" if record is None else "nccl"


def _add_dims(call: ImportedCall, operator: C10dOperator, native: ProfileSpan | None) -> None:
    """The sizes derived from the shapes of the arguments, if recorded."""
    if operator.payload is None:
        return
    args = call.span.args
    shapes = sizes_at(args, operator.payload)
    call.dtype = type_at(args, operator.payload)
    if native is not None and not call.dtype:
        call.dtype = type_at(native.args, 0)
    if shapes is None and native is not None and call.op in _GIVEN_IS_PAYLOAD:
        shapes = all_sizes(native.args)
    if shapes is None or operator.is_for_each:
        return
    sizes = tuple(prod(shape) for shape in shapes)
    call.elements = sum(sizes)
    if call.span.name == "c10d::alltoall_":
        received = tuple(prod(shape) for shape in sizes_at(args, 0) or ())
        if len({*sizes, *received}) > 1:
            call.parts, call.received_parts = sizes, received
    elif call.op is Op.REDUCE_SCATTER and len(sizes) > 1:
        call.parts = sizes


def _add_from_parts(call: ImportedCall, span: ProfileSpan, operator: C10dOperator) -> None:
    """A payload of one equal part per rank; only one part is recorded."""
    place = _FOR_EACH_OUTPUT.get(span.name)
    if operator.is_for_each:
        place = operator.payload
    if place is None or not call.ranks:
        return
    shapes = sizes_at(span.args, place)
    if shapes is not None:
        call.elements = len(call.ranks) * sum(prod(shape) for shape in shapes)


def _add_record(profile: KinetoProfile, call: ImportedCall, record: ProfileSpan) -> None:
    """The contents of NCCL's record, more detailed than the shapes in newer versions of PyTorch."""
    args = record.args
    known = RECORDED.get(str(args.get("Collective name")))
    call.dtype = dtype_of(args.get("dtype")) or call.dtype
    size = counted(args, "Group size")
    call.group, call.ranks = _group_of(profile, record, size)
    given = counted(args, "In msg nelems", "In msg size")
    gotten = counted(args, "Out msg nelems", "Out msg size")
    if known is not None:
        if known[1]:
            said = given if known[1] == "In" else gotten
            call.elements = call.elements if said is None else said
        elif call.op in (Op.GATHER, Op.SCATTER) and size:
            part = given if call.op is Op.GATHER else gotten
            call.elements = call.elements if part is None else part * size
    if call.op is Op.ALL_TO_ALL:
        sent, got = (listed(args.get(f"{way} split size")) for way in ("In", "Out"))
        _add_splits(call, sent or [], got or [], given, gotten)
    if call.op in _MESSAGES:
        call.peer = counted(args, "Dst Rank" if call.op is Op.SEND else "Src Rank")
        if call.peer is not None and call.peer >= profile.num_ranks:
            call.peer = None
    if call.op in (*_MESSAGES, Op.BROADCAST, Op.REDUCE) and call.peer is None:
        place = counted(args, "Rank")  # for these operations, it is the root or the peer
        call.peer = call.ranks[place] if place is not None and place < len(call.ranks) else None
    call.sequence = counted(args, "Seq")
    call.source = args[SOURCE] if isinstance(args.get(SOURCE), str) else ""
    told = counted(args, MESSAGE_BYTES)
    if told is not None and (call.op not in _OF_PARTS or call.ranks):
        call.size_bytes = told * (len(call.ranks) if call.op in _OF_PARTS else 1)
        call.elements = call.size_bytes  # the dtype is unknown: count bytes


def _add_splits(
    call: ImportedCall, sent: list[int], got: list[int], given: int | None, gotten: int | None
) -> None:
    """The unequal parts of an all-to-all, which are recorded as rows."""
    rows = sum(sent), sum(got)
    if not all(rows) or given is None or gotten is None:
        return
    parts = tuple(one * given // rows[0] for one in sent)
    received = tuple(one * gotten // rows[1] for one in got)
    if len({*parts, *received}) > 1 and len(parts) == len(received) == len(call.ranks):
        call.parts, call.received_parts = parts, received


def _group_of(
    profile: KinetoProfile, record: ProfileSpan, size: int | None
) -> tuple[str, tuple[int, ...]]:
    """The group that a record names, with its ranks."""
    args, everyone = record.args, profile.num_ranks
    name = args.get("Process Group Name", args.get("Process Group ID"))
    if name is None:
        return ("", ())
    name = str(name)
    ranks = profile.groups.get(name) or ranks_in(args.get("Process Group Ranks"), everyone)
    start, stride = counted(args, "Global rank start"), counted(args, "Global rank stride")
    if not ranks and size and start is not None and stride and size <= everyone:
        ranks = ranks_in([start + stride * place for place in range(size)], everyone)
    return (name, ranks) if profile.rank in ranks else ("", ())


def _group_size(span: ProfileSpan, operator: C10dOperator) -> int | None:
    """Number of ranks that share the payload of a call; None if not recorded."""
    if span.name not in ("c10d::_allgather_base_", "c10d::_reduce_scatter_base_"):
        return None
    whole, part = (0, 1) if operator.op is Op.ALL_GATHER else (1, 0)
    sizes = [sizes_at(span.args, place) for place in (whole, part)]
    all_of, own = (sum(prod(one) for one in shapes or ()) for shapes in sizes)
    return all_of // own if own and all_of % own == 0 else None


def _only_group(
    profile: KinetoProfile, backend: str, size: int | None
) -> tuple[str, tuple[int, ...]]:
    """The group of a call, if the file names only one possible group."""
    able = {
        name: ranks
        for name, ranks in profile.groups.items()
        if profile.rank in ranks
        and backend in profile.backends[name]
        and (size is None or len(ranks) == size)
    }
    if len(able) != 1:
        return "", ()
    return next(iter(able.items()))
