"""Calls and traffic, in bytes of one step; for rank 0 by default."""

from __future__ import annotations

from zerosim.base.config import DType, EngineConfig
from zerosim.base.errors import ConfigError
from zerosim.base.tables import Table
from zerosim.base.tiers import Link
from zerosim.lessons.facts.base import Base
from zerosim.schema.events import Kind, Op, Phase, Purpose
from zerosim.theory import UnitSize, Workload, law, node_law, ranks_of_node
from zerosim.theory.zeropp import SCALE_BYTES
from zerosim.verify import SystemLaw
from zerosim.verify.configured import workload_of
from zerosim.verify.outcome import Outcome

_OF_THE_MODEL = (Purpose.REDUCE_GRADIENTS, Purpose.GATHER_PARAMETERS)
_EVERYTHING = tuple(Phase)


class Traffic(Base):
    """Facts of traffic."""

    # calls and traffic

    def payload(self, run: str, phase: str = "", purpose: str = "", op: str = "") -> int:
        """Payload of the collectives of one rank."""
        return sum(self._moved(run, 0, phase, purpose, op)["payload_bytes"])

    def passed(self, run: str, rank: int = 0, phase: str = "", purpose: str = "") -> int:
        """The same, an all-reduce counted twice."""
        return sum(self._moved(run, rank, phase, purpose)["volume_bytes"])

    def sent(
        self, run: str, rank: int = 0, phase: str = "", purpose: str = "", op: str = ""
    ) -> int:
        """The requested bytes."""
        return self._moved(run, rank, phase, purpose, op).sent_bytes or 0

    def sent_in(self, run: str, iteration: int, purpose: str = "") -> int:
        """The same of one iteration."""
        table = self._run(run).traffic(rank=0, iteration=iteration, purpose=purpose or None)
        return table.sent_bytes or 0

    def payload_in(self, run: str, micro_step: int, purpose: str = "") -> float:
        """Communication of rank 0 in one micro-step, in Psi; an all-reduce counts twice.

        The update belongs to the last one.
        """
        table = self._run(run).traffic(by="micro_step", rank=0, purpose=purpose or None)
        elements = {row["micro_step"]: row["volume_elements"] for row in table}
        return float(elements.get(micro_step, 0) / self.model_psi(run))

    def model_sent(self, run: str, rank: int = 0) -> int:
        """The requested bytes of gradients and parameters: all but the loss."""
        return sum(self.sent(run, rank, purpose=purpose) for purpose in _OF_THE_MODEL)

    def wire(
        self, run: str, rank: int = 0, phase: str = "", purpose: str = "", op: str = ""
    ) -> int:
        """The kernel's count.

        Raises:
            ConfigError: it does not separate the bytes of calls.
        """
        table = self._moved(run, rank, phase, purpose, op)
        total = table.total("wire_sent_bytes")
        if total is None and len(table):
            raise ConfigError(f"{run}: what the kernel sent was not measured call by call")
        return total or 0

    def calls(self, run: str, phase: str = "", purpose: str = "", op: str = "") -> int:
        """Number of collectives."""
        return sum(self._moved(run, 0, phase, purpose, op)["calls"])

    def num_calls(self, run: str, op: str, unit: str = "", phase: str = "", rank: int = 0) -> int:
        """Number of a rank's calls of an operation, for one unit and phase or for all."""
        return sum(self._moved(run, rank, phase, op=op, unit=unit)["calls"])

    def called_bytes(
        self, run: str, op: str, unit: str = "", phase: str = "", rank: int = 0
    ) -> int:
        """The payload of such calls."""
        return sum(self._moved(run, rank, phase, op=op, unit=unit)["payload_bytes"])

    def sent_to(self, run: str, rank: int, other: int) -> int:
        """The messages of a rank to another outside of collectives."""
        return sum(
            call.event.payload_bytes
            for call in self._run(run).calls
            if call.rank == rank
            and call.event.iteration == self._report(run).iteration
            and call.event.op is Op.SEND
            and call.event.peers == (other,)
        )

    def witness(self, run: str, op: str) -> str:
        """The ledger that sees a collective's bytes: "trace" if its messages were intercepted, else
        "wire".
        """
        calls = [
            event
            for event in self._run(run).trace.ranks[0].events
            if event.kind is Kind.COLLECTIVE and event.op == op
        ]
        if calls and all(event.sent_bytes is not None for event in calls):
            return "trace"
        return "wire" if calls and all(event.wire for event in calls) else "nobody"

    # the mean of all ranks, side by side

    def asked(self, run: str) -> float:
        """Communication of a rank in a step, in Psi; an all-reduce counts twice."""
        elements: int = sum(self._run(run).traffic()["volume_elements"])
        return elements / (self.num_ranks(run) * self.model_psi(run))

    def ring(self, run: str) -> int:
        """Traffic of a rank of a ring for it."""
        return round((self._run(run).traffic().sent_bytes or 0) / self.num_ranks(run))

    def counted(self, run: str) -> int:
        """The kernel's count for a rank.

        Raises:
            ConfigError: it was not measured.
        """
        table = self._run(run).wire(phase=_EVERYTHING)
        if table.notes:
            raise ConfigError(f"{run}: what the kernel sent was not measured")
        return round((table.sent_bytes or 0) / self.num_ranks(run))

    def collectives(self, run: str) -> dict[str, int]:
        """The first rank's calls by operation, the most frequent first."""
        table = self._run(run).traffic(by="op", rank=0)
        return {row["op"]: row["calls"] for row in sorted(table, key=lambda row: -row["calls"])}

    # nodes

    def leaves(self, run: str, phase: str = "", purpose: str = "", node: int = 0) -> int:
        """Traffic of a node's ranks to other nodes together."""
        return self._over(run, Link.NETWORK, phase, purpose, node)

    def stays(self, run: str, phase: str = "", purpose: str = "", node: int = 0) -> int:
        """Traffic among them."""
        return self._over(run, Link.NODE, phase, purpose, node)

    def node_law(self, run: str) -> float:
        """By the law: inter-node traffic of a step, in bytes, without scales or padding."""
        return float(node_law(self._workload(run)).sent_bytes)

    def node_payloads(self, run: str) -> float:
        """The same before the share that stays: payloads that cross, in Psi, as in the paper."""
        return float(node_law(self._workload(run)).payloads)

    def node_words(self, run: str) -> str:
        """The law in words, such as "3Ψ(N-1)/N"."""
        return node_law(self._workload(run)).symbols

    def scale_share(self, run: str, bits: int) -> float:
        """Bytes of scales as a fraction of quantized elements: 4 bytes per block."""
        return SCALE_BYTES * 8 / (self.config(run, "quantization_block") * bits)

    def scale_bytes(self) -> int:
        """Bytes of a block's scale."""
        return SCALE_BYTES

    # laws, and the steps from there to the wire

    def law_sent(self, run: str) -> float:
        """Traffic of a rank on a ring under the paper's law."""
        found = self._report(run).law_bytes
        assert found is not None, run
        return float(found)

    def law_psi(self, stage: int, accumulate: int = 1, phase: str = "") -> float:
        """The paper's law: payload of a step, or of one phase of it, in Psi."""
        config = EngineConfig(stage=stage, accumulate=accumulate)
        workload = Workload(config=config, num_ranks=2, units=(UnitSize("model", 2),))
        return float(law(workload, Phase(phase) if phase else None).payloads)

    def traffic_law(self, run: str) -> str:
        """The law of a run in words, such as "2Ψ(N-1)/N"."""
        found: str = self._document(run)["traffic"]["law"]
        return found.replace("\u2212", "-")

    def has_law(self, run: str) -> bool:
        """Whether theory has a plan for a program."""
        return bool(self._report(run).systems)

    def law_name(self, run: str) -> str:
        """The law that a run is compared with: "ZeRO-3"."""
        return self._system(run).law_name

    def law_payloads(self, run: str) -> float:
        """The law itself, in its own unit."""
        return float(self._system(run).payloads)

    def why(self, run: str) -> list[tuple[str, float, str]]:
        """From the law to the traffic: each cause, its bytes, and its words."""
        return [(one.cause, float(one.bytes), one.words) for one in self._system(run).causes]

    def causes(self, run: str) -> list[tuple[str, float, str]]:
        """From the formula to the bytes on the wire: each cause, its bytes, and its words."""
        return [(each.cause, float(each.bytes), each.words) for each in self._report(run).causes]

    def theory(self, run: str, rank: int = 0) -> int:
        """Traffic of a rank under the bounds of its collectives."""
        return self._report(run).total("theory", rank) or 0

    def excess(self, run: str, rank: int = 0) -> int:
        """Traffic of the backend's algorithm beyond the bounds, on the wire alone."""
        return sum(row.sent[rank].algorithm for row in self._report(run).rows)

    def framing(self, run: str, rank: int = 0) -> int:
        """Bytes that the backend's protocol adds on the wire."""
        found = self._report(run)
        if not found.wire_by_call:
            return found.wires[rank].framing or 0
        return sum(row.sent[rank].framing or 0 for row in found.rows)

    def unexplained(self, run: str) -> int:
        """The largest difference of any rank that no cause names, in the trace or on the wire."""
        found = self._report(run)
        return max(found.unexplained_trace, found.unexplained_wire or 0)

    def keeps_law(self, run: str) -> bool:
        """True if the run's traffic is as predicted, and not only explained."""
        return self._report(run).outcome is Outcome.AS_PREDICTED

    # in other units

    def in_psi(self, num_bytes: float, run: str) -> float:
        """Bytes as a multiple of all parameters."""
        return num_bytes / (self.psi(run) * self.element_bytes(run))

    def in_model(self, num_bytes: float, run: str) -> float:
        """Bytes as a multiple of the model's parameters, fp32 unless a law has its own dtype."""
        each = self.element_bytes(run) or DType.FP32.element_bytes
        return num_bytes / (self.model_psi(run) * each)

    def on_ring(self, payload: float, num_ranks: int) -> float:
        """Traffic of a rank of a ring for a payload."""
        return payload * (num_ranks - 1) / num_ranks

    def as_payload(self, sent: float, num_ranks: int) -> float:
        """The payload with this traffic in a ring."""
        return sent * num_ranks / (num_ranks - 1)

    def compare(self, one: float, other: float) -> str:
        """Whether the first is "less" than the second, "more", or, to 1 %, the "same"."""
        if abs(one - other) <= 0.01 * max(abs(one), abs(other)):
            return "same"
        return "less" if one < other else "more"

    def _moved(
        self, run: str, rank: int, phase: str, purpose: str = "", op: str = "", unit: str = ""
    ) -> Table:
        chosen = {"phase": phase, "purpose": purpose, "op": op, "unit": unit}
        return self._run(run).traffic(
            rank=rank, **{name: value for name, value in chosen.items() if value}
        )

    def _over(self, run: str, link: Link, phase: str, purpose: str, node: int) -> int:
        ranks = ranks_of_node(self._workload(run), node)
        table = self._run(run).traffic(
            rank=ranks, phase=phase or None, purpose=purpose or None, link=link
        )
        return table.sent_bytes or 0

    def _workload(self, run: str) -> Workload:
        found = workload_of(self._run(run).trace, self._report(run).iteration)
        assert found is not None, run
        return found

    def _system(self, run: str) -> SystemLaw:
        if not self.has_law(run):
            raise ConfigError(f"{run}: no law of it is known")
        return self._report(run).systems[0]
