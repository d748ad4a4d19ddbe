"""What DeepSpeed 0.19 should ask for, worked out from its configuration and from nothing else.

A call is (phase, purpose, op, dtype, elements). `of(config, num_ranks)` lists the calls of each
micro-step by (iteration, micro-step), in the order in which DeepSpeed makes those of one kind.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from tests.train.deepspeed.training import NUM_TOKENS, STEPS, WIDTH
from zerosim.schema.events import Op, Phase, Purpose

Calls = list[tuple[Phase, Purpose, Op, str, int]]

LINEARS = {"up": (3 * WIDTH * WIDTH, 3 * WIDTH), "down": (3 * WIDTH * WIDTH, WIDTH)}
BLOCK = {"norm": (WIDTH, WIDTH), **LINEARS}
MODULES = {
    "root": (3,),
    "embedding": (NUM_TOKENS * WIDTH,),
    "blocks.0": (),
    **{f"blocks.0.{name}": sizes for name, sizes in BLOCK.items()},
    "blocks.1": (),
    **{f"blocks.1.{name}": sizes for name, sizes in BLOCK.items()},
    "head": (WIDTH * NUM_TOKENS, NUM_TOKENS),
}
"""In the order of forward: the sizes of each module's own parameters."""
SIZES = [size for sizes in MODULES.values() for size in sizes]
PSI = sum(SIZES)
WITHOUT_GRADIENT_OF_INPUT = ("root", "embedding")
INT64, FLOAT32, FLOAT64, BFLOAT16, UINT8 = "int64", "float32", "float64", "bfloat16", "uint8"
REDUCE = (Phase.BACKWARD, Purpose.REDUCE_GRADIENTS)
NORM = (Phase.UPDATE, Purpose.GRADIENT_NORM, Op.ALL_REDUCE)


def of(config: dict, num_ranks: int) -> dict[tuple[int, int], Calls]:
    """All calls of a run, by (iteration, micro-step)."""
    stage = config["zero_optimization"]["stage"]
    if stage == 3:
        return _Stage3(config, num_ranks).run()
    found = {}
    for iteration in range(STEPS):
        count = config["gradient_accumulation_steps"]
        for micro_step in range(count):
            is_last = micro_step == count - 1
            calls: Calls = []
            if stage == 2 or is_last:
                calls += _reduced(config, num_ranks)
            if is_last:
                calls += _updated(config, num_ranks)
            found[iteration, micro_step] = calls
    return found


def _dtype(config: dict) -> str:
    return BFLOAT16 if config.get("bf16") else FLOAT32


def _gradient_dtype(config: dict) -> str:
    return FLOAT32 if config.get("communication_data_type") == "fp32" else _dtype(config)


def _clips(config: dict) -> bool:
    return config.get("gradient_clipping", 1.0) > 0  # 1.0 where it is not said


def _sums_in_fp32(config: dict) -> bool:
    """Stage 1 in bf16 with sums in fp32 is carried out by another class."""
    return config.get("data_types", {}).get("grad_accum_dtype") == "fp32"


def _updated(config: dict, num_ranks: int) -> Calls:
    zero, dtype = config["zero_optimization"], _dtype(config)
    gather = (Phase.UPDATE, Purpose.GATHER_PARAMETERS, Op.ALL_GATHER, dtype)
    if zero["stage"] == 0:
        # in bf16 every rank finds the same norm by itself
        return [(*NORM, FLOAT32, 1)] if dtype == FLOAT32 and _clips(config) else []
    calls: Calls = []
    is_bf16_optimizer = zero["stage"] == 1 and _sums_in_fp32(config)
    if dtype == BFLOAT16 and not is_bf16_optimizer:
        calls.append((Phase.UPDATE, Purpose.OVERFLOW_FLAG, Op.ALL_REDUCE, UINT8, 1))
    if zero.get("compute_grad_norm", True) and not is_bf16_optimizer:
        calls.append((*NORM, FLOAT32, 1))
    return [*calls, (*gather, _up(PSI, 2 * num_ranks))]


def _reduced(config: dict, num_ranks: int) -> Calls:
    """Gradients of stages 0 to 2, bucket by bucket."""
    zero, dtype = config["zero_optimization"], _gradient_dtype(config)
    largest = zero.get("reduce_bucket_size", 5e8)
    # without overlap stage 1 goes through its parameters after backward, in the model's order
    backwards = zero["stage"] == 2 or zero.get("overlap_comm", False)
    order = list(enumerate(SIZES))
    if backwards:
        # the root's own parameter is used last in forward, though it is its first
        order = [order[0], *order[:0:-1]]
    buckets = _filled(order, largest)
    if zero["stage"] == 1 and _sums_in_fp32(config):
        return [(*REDUCE, Op.ALL_REDUCE, dtype, _up(PSI, 2 * num_ranks))]
    if zero["stage"] and not zero.get("use_multi_rank_bucket_allreduce", True):
        part = _up(PSI, 2 * num_ranks) // num_ranks
        return [
            (*REDUCE, Op.REDUCE, dtype, size)
            for bucket in buckets
            for size in _by_owner(bucket, part)
        ]
    return [(*REDUCE, Op.ALL_REDUCE, dtype, sum(size for _, size in b)) for b in buckets]


def _filled(order: list[tuple[int, int]], largest: float) -> list[list[tuple[int, int]]]:
    """Parameters as (place, size) in buckets: one that would grow too large is sent first."""
    buckets, current = [], []
    for place, size in order:
        if current and sum(one for _, one in current) + size > largest:
            buckets.append(current)
            current = []
        current = [*current, (place, size)]
    return [*buckets, current]


def _by_owner(bucket: list[tuple[int, int]], part: int) -> list[int]:
    """How much of a bucket each rank owns, in the order in which the owners are met."""
    starts = [sum(SIZES[:place]) for place in range(len(SIZES))]
    owned: dict[int, int] = {}
    for place, size in bucket:
        start = starts[place]
        for owner in range(start // part, (start + size - 1) // part + 1):
            common = min(start + size, (owner + 1) * part) - max(start, owner * part)
            owned[owner] = owned.get(owner, 0) + common
    return list(owned.values())


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


@dataclass
class _Stage3:
    """Stage 3's bookkeeping: what is whole, what it has recorded, what it fetches ahead."""

    config: dict
    num_ranks: int
    whole: set[str] = field(default_factory=set)
    on_its_way: set[str] = field(default_factory=set)
    mode: str = "none"
    recorded: list[str] = field(default_factory=list)
    ahead: deque = field(default_factory=deque)
    looked_at: dict[str, int] = field(default_factory=dict)
    released: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    place: int = 0
    num_live: int = 0
    calls: Calls = field(default_factory=list)

    def __post_init__(self):
        self.zero = zero = self.config["zero_optimization"]
        self.sizes = {
            f"{module}/{number}": size
            for module, sizes in MODULES.items()
            for number, size in enumerate(sizes)
        }
        self.own = {m: [f"{m}/{n}" for n in range(len(sizes))] for m, sizes in MODULES.items()}
        self.one_by_one = zero.get("stage3_allgather_sequential", False)
        most_ahead = zero.get("stage3_prefetch_bucket_size", 5e7)
        self.most_ahead = 1 if self.one_by_one else most_ahead
        self.most_live = zero.get("stage3_max_live_parameters", 1e9)
        self.reuse_distance = zero.get("stage3_max_reuse_distance", 1e9)
        self.persistent, total = [], 0
        for name, size in self.sizes.items():
            is_small = size <= zero.get("stage3_param_persistence_threshold", 1e5)
            if is_small and total + size <= zero.get("stage3_model_persistence_threshold", 1e18):
                self.persistent.append(name)
                total += size

    def run(self) -> dict[tuple[int, int], Calls]:
        found = {}
        for iteration in range(STEPS):
            count = self.config["gradient_accumulation_steps"]
            for micro_step in range(count):
                self.calls = []
                self._micro_step()
                if micro_step == count - 1:
                    self._update()
                found[iteration, micro_step] = self.calls
        return found

    # a micro-step

    def _micro_step(self):
        self._agree()
        self._compute("root", Phase.FORWARD)
        self._compute("root", Phase.BACKWARD)
        for module in WITHOUT_GRADIENT_OF_INPUT:
            self._let_go(set(self.own[module]) - set(self.persistent))
        self._reduce()

    def _agree(self):
        """Before forward, ranks see that they have recorded the same."""
        agreed = []
        if self.mode != "repeat":
            agreed.append(len(self.recorded))
        if self.mode == "record":
            uses = [(n, place) for place, m in enumerate(self.recorded) for n in self.own[m]]
            agreed += [len(uses), len(uses)]
            self.uses = uses
        self.mode = {"none": "record", "record": "repeat"}.get(self.mode, "repeat")
        for length in agreed:
            for size in (1, length):
                call = (Phase.FORWARD, Purpose.METADATA, Op.BROADCAST, INT64, size)
                self.calls.append(call)
        self.ahead = deque(self.uses if self.mode == "repeat" else ())
        self.looked_at, self.place, self.num_live = {}, 0, 0

    def _compute(self, module: str, phase: Phase):
        self._fetch(module, phase)
        children = [name for name in MODULES if _parent(name) == module]
        for child in children if phase is Phase.FORWARD else children[::-1]:
            self._compute(child, phase)
        if phase is Phase.FORWARD or module not in WITHOUT_GRADIENT_OF_INPUT:
            self._let_go(self._not_needed(module))

    def _fetch(self, module: str, phase: Phase):
        if self.mode == "record":
            self.recorded.append(module)
        self._gather(self.own[module], phase)
        self.on_its_way -= set(self.own[module])
        if self.mode == "repeat":
            self._fetch_ahead(module, phase)
        self.place += 1

    def _fetch_ahead(self, module: str, phase: Phase):
        here = {name for name in self.own[module] if self.looked_at.get(name, -1) < self.place}
        for _ in range(len(here)):
            name, place = self.ahead.popleft()
            self.looked_at[name] = place
        most = min(self.most_live - self.num_live, self.most_ahead)
        chosen: list[str] = []
        while self.ahead and sum(self.sizes[name] for name in chosen) < most:
            name, place = self.ahead.popleft()
            self.looked_at[name] = max(self.looked_at.get(name, -1), place)
            if name not in self.whole and name not in chosen:
                chosen.append(name)
        self._gather(chosen, phase)

    def _gather(self, names: list[str], phase: Phase):
        missing = [name for name in names if name not in self.whole]
        self.whole |= set(missing)
        self.on_its_way |= set(missing)
        self.num_live += sum(self.sizes[name] for name in missing)
        padded = [_up(self.sizes[name], self.num_ranks) for name in missing]
        op = Op.ALL_GATHER
        if self.zero.get("stage3_use_all_reduce_for_fetch_params") and len(missing) > 1:
            op = Op.ALL_REDUCE
        for size in padded if self.one_by_one else [sum(padded)] if padded else []:
            self.calls.append((phase, Purpose.GATHER_PARAMETERS, op, _dtype(self.config), size))

    def _not_needed(self, module: str) -> set[str]:
        if self.mode == "record":
            return set(self.own[module])
        key = (module, self.place)
        if key not in self.released:
            own = set(self.own[module]) - set(self.persistent)
            own -= {name for name in own if self.looked_at.get(name, -1) > self.place}
            passed = 0
            for later in self.recorded[self.place :]:
                if passed >= self.reuse_distance:
                    break
                own -= set(self.own[later])
                passed += sum(self.sizes[name] for name in self.own[later])
            self.released[key] = own
        return self.released[key]

    def _let_go(self, names: set[str]):
        gone = (names & self.whole) - self.on_its_way
        self.whole -= gone
        self.num_live -= sum(self.sizes[name] for name in gone)

    # its end

    def _reduce(self):
        dtype = _gradient_dtype(self.config)
        op = Op.REDUCE_SCATTER if self.zero.get("reduce_scatter", True) else Op.ALL_REDUCE
        # its own linear layer hands out the gradient of the weight before that of the bias
        modules = ["root", *[module for module in MODULES if module != "root"][::-1]]
        order = [(0, size) for module in modules for size in MODULES[module]]
        for bucket in _filled(order, self.zero.get("reduce_bucket_size", 5e8)):
            multiple = self.num_ranks if op is Op.REDUCE_SCATTER else 1
            elements = sum(_up(size, multiple) for _, size in bucket)
            self.calls.append((*REDUCE, op, dtype, elements))

    def _update(self):
        is_offloaded = "offload_optimizer" in self.zero
        dtype = FLOAT32 if is_offloaded else FLOAT64
        self.calls += [(*NORM, dtype, 1)] * self._num_sub_groups()
        gather = (Phase.UPDATE, Purpose.GATHER_PARAMETERS, Op.ALL_GATHER, _dtype(self.config))
        for name in self.persistent:
            self.calls.append((*gather, _up(self.sizes[name], self.num_ranks)))
        self.whole, self.on_its_way = set(self.persistent), set()

    def _num_sub_groups(self) -> int:
        """A rank's own parts are updated in sub-groups, and each has a norm of its own."""
        groups, filled = 0, 0
        for size in SIZES:
            filled += _up(size, self.num_ranks) // self.num_ranks
            if filled >= self.zero.get("sub_group_size", 1e9):
                groups, filled = groups + 1, 0
        return groups + (filled > 0)


def _parent(module: str) -> str | None:
    if module == "root":
        return None
    return module.rpartition(".")[0] if module.count(".") == 2 else "root"
