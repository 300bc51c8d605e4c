"""RODS on one page: reward-driven online data synthesis (arXiv 2606.19047) without our library.

    python examples/one_page_loop.py --curriculum rods    # or static: a fixed pool

A user says over three turns what to do with things in boxes; the agent answers with tool calls.
[P] marks numbers of the paper. Read `train` first; `src/rods/loop.py` is the same loop for real
environments and models.
"""

import argparse
import random
from dataclasses import dataclass, field

import torch
from torch import Tensor
from transformers import DynamicCache, LlamaConfig
from transformers import LlamaForCausalLM as Policy

K, TASKS_PER_STEP, TURNS = 16, 6, 3  # [P]: K rollouts of a task
LOW, HIGH, MASTERED = 0.20, 0.85, 0.95  # [P]: boundary; below the first, above the last: retired
QUOTA, PER_SEED = 2, 2  # most seed tasks of a type in an epoch; variants of each
INJECT, CAP = 0.20, 40  # [P]: new variants an epoch, a share of the pool; cap: 400
LEARNING_RATE, PASSES, CLIP = 1e-3, 2, (0.8, 1.28)
HABIT, SLIP = 0.7, 0.2  # how often a demonstration is wrong: "put" for "take", a random number
TOOLS, TYPES = ("put", "take", "set"), ("one call", "two calls")  # types of tasks: calls a turn
BOXES = ["red", "blue", "green", "gold", "black", "white", "pink", "grey"]
NUMBERS = [str(n) for n in range(1, 10)]
WORDS = ["<end>", ".", "user", "agent", "ok", "error", "in", "then", ";", *TOOLS, *BOXES, *NUMBERS]
MESSAGE, ANSWER, END = 9, 8, 0  # tokens of a message and of an answer; the id of <end>
Calls = tuple[tuple[str, ...], ...]  # calls of a turn, each such as ("put", "red", "3")
State = dict[str, int]  # how many things are in each box


def execute(state: State, calls: Calls) -> State | None:
    """Run the calls of a turn in a world; returns its new state, or None where a call fails."""
    for call in calls:
        if len(call) != 3 or call[0] not in TOOLS or call[1] not in BOXES or call[2] not in NUMBERS:
            return None
        name, box, n = call[0], call[1], int(call[2])
        count = {"put": state[box] + n, "take": state[box] - n, "set": n}[name]
        if count < 0:
            return None
        state[box] = count
    return dict(state)


@dataclass(frozen=True)
class Task:
    """Messages of a user and the calls that do what they say (only the reward reads the calls)."""

    type: str
    start: tuple[tuple[str, int], ...]
    messages: tuple[str, ...]
    truth: tuple[Calls, ...]

    def states(self) -> list[State | None]:
        """The world after each turn of the ground truth."""
        world = dict(self.start)
        return [execute(world, calls) for calls in self.truth]


def say(calls: Calls) -> str:
    """The calls of a turn in the user's words, filled up with "."."""
    text = " then ".join(f"{name} {n} in {box}" for name, box, n in calls)
    return text + " ." * (MESSAGE - len(text.split()))


def verified(task: Task, known: set[Task]) -> bool:
    """Gates: its calls work in a fresh world, its user says every argument, and it is new."""
    turns = zip(task.messages, task.truth, strict=True)
    said = all(set(call[1:]) <= set(text.split()) for text, calls in turns for call in calls)
    return said and task not in known and None not in task.states()


def write(rng: random.Random, type: str, tools: list[list[str]], known: set[Task]) -> Task:
    """Write candidates with these tools in each turn until one passes the gates."""
    while True:
        turns = [[(t, rng.choice(BOXES), rng.choice(NUMBERS)) for t in turn] for turn in tools]
        truth, start = tuple(map(tuple, turns)), tuple((box, rng.randint(5, 20)) for box in BOXES)
        task = Task(type, start, tuple(map(say, truth)), truth)
        if verified(task, known):
            known.add(task)
            return task


def variants(seed_task: Task, rng: random.Random, known: set[Task]) -> list[Task]:
    """Variants of a seed task: the same tools in the same turns, everything else new."""
    tools = [[call[0] for call in calls] for calls in seed_task.truth]
    return [write(rng, seed_task.type, tools, known) for _ in range(PER_SEED)]


def original_tasks(rng: random.Random, count: int, known: set[Task]) -> list[Task]:
    """Tasks of each type in turn; they stand for human-written ones."""
    kinds = [(i % 2, [rng.choices(TOOLS, k=1 + i % 2) for _ in range(TURNS)]) for i in range(count)]
    return [write(rng, TYPES[kind], tools, known) for kind, tools in kinds]


class Batch:
    """Trajectories, each with a world of its own; all turns have one length: nothing is padded."""

    def __init__(self, tasks: list[Task]) -> None:
        self.tasks, self.worlds = tasks, [dict(task.start) for task in tasks]
        self.states = [list[State | None]() for _ in tasks]  # after each turn; None: a call failed
        self.ids = torch.empty(len(tasks), 0).long()  # (rows, tokens)
        self.sampled, self.logprobs = self.ids.bool(), self.ids.float()  # of the rollout policy

    def extend(self, ids: Tensor, sampled: Tensor, logprobs: Tensor) -> None:
        self.ids = torch.cat([self.ids, ids], 1)
        self.sampled = torch.cat([self.sampled, sampled], 1)
        self.logprobs = torch.cat([self.logprobs, logprobs], 1)

    def read(self, texts: list[str]) -> None:
        """Append what the policy reads; it carries no loss."""
        ids = torch.tensor([[*map(WORDS.index, text.split())] for text in texts])
        self.extend(ids, torch.zeros_like(ids).bool(), torch.zeros(ids.shape))

    def execute_answers(self) -> list[str]:
        """Execute the calls of the last answers; returns the results."""
        for world, seen, ids in zip(self.worlds, self.states, self.ids.tolist(), strict=True):
            calls = " ".join(WORDS[i] for i in ids[-ANSWER:] if i != END).split(";")
            seen.append(execute(world, tuple(tuple(call.split()) for call in calls)))
        return ["error" if seen[-1] is None else "ok" for seen in self.states]


def generate(policy: Policy, batch: Batch, cache: DynamicCache, temperature: float) -> None:
    """Sample an answer of each row, token by token; `cache` holds what the policy has read."""
    unfinished = torch.ones(len(batch.tasks), 1).bool()
    for _ in range(ANSWER):
        unread = batch.ids[:, cache.get_seq_length() :]
        logits = policy(unread, None, None, cache, logits_to_keep=1).logits[:, -1]
        noise = -torch.empty_like(logits).exponential_().log()  # Gumbel: a sample is an argmax
        token = (logits + temperature * noise).argmax(-1, keepdim=True) * unfinished  # END is 0
        batch.extend(token, unfinished, logits.log_softmax(-1).gather(-1, token))
        unfinished = unfinished & (token != END)


@torch.no_grad()
def roll_out(policy: Policy, tasks: list[Task], k: int, temperature: float = 1.0) -> Batch:
    """Roll out each task k times."""
    batch, cache = Batch([task for task in tasks for _ in range(k)]), DynamicCache()
    for turn in range(TURNS):
        batch.read([f"user {task.messages[turn]} agent" for task in batch.tasks])
        generate(policy, batch, cache, temperature)
        batch.read(batch.execute_answers())
    return batch


def score(batch: Batch) -> Tensor:
    """[P]: progress, the share of turns after which the world is as the ground truth leaves it."""
    rows = zip([task.states() for task in batch.tasks], batch.states, strict=True)
    solved = [[a == b for a, b in zip(*row, strict=True)] for row in rows]
    return torch.tensor(solved).float().mean(1)


def advantages(rewards: Tensor) -> Tensor:
    """Standardise rewards (groups, K) by group; all are zero where the rewards are equal."""
    centered = rewards - rewards.mean(1, keepdim=True)
    return centered / (rewards.std(1, correction=0, keepdim=True) + 1e-6)


def grpo_loss(policy: Policy, batch: Batch, advantage: Tensor) -> Tensor:
    """Clipped policy-gradient loss over sampled tokens; advantages by row. [P] adds a KL term."""
    logprobs = policy(batch.ids[:, :-1]).logits.log_softmax(-1)
    logprobs = logprobs.gather(-1, batch.ids[:, 1:, None])[..., 0]
    ratio, gain = (logprobs - batch.logprobs[:, 1:]).exp(), advantage[:, None]
    return -torch.minimum(ratio * gain, ratio.clamp(*CLIP) * gain)[batch.sampled[:, 1:]].mean()


def phi(rbar: float) -> float:
    """[P]: priority 4 r (1 - r), from 0 (no or every turn is solved) to 1 (half of them are)."""
    return 4 * rbar * (1 - rbar)


def choose_seed_tasks(judged: dict[Task, float], resting: list[Task]) -> list[Task]:
    """Boundary tasks of highest phi within an equal quota for each type; those resting wait."""
    boundary = [t for t, rbar in judged.items() if LOW <= rbar <= HIGH and t not in resting]
    boundary.sort(key=lambda task: -phi(judged[task]))
    return [t for type in TYPES for t in [t for t in boundary if t.type == type][:QUOTA]]


@dataclass
class Buffer:
    """Replay buffer: original tasks stay; variants are pending, then active, then retired."""

    originals: list[Task]
    pending: list[Task] = field(default_factory=list[Task])
    active: list[Task] = field(default_factory=list[Task])
    first: dict[Task, float] = field(default_factory=dict[Task, float])  # reward at first visit
    retired: dict[str, int] = field(default_factory=dict[str, int])  # by reason

    def ingest(self) -> None:
        """Move pending variants into the pool, first come first served."""
        room = min(int(INJECT * len(self.originals + self.active)), CAP - len(self.active))
        self.active, self.pending = self.active + self.pending[:room], self.pending[room:]

    def retire(self, judged: dict[Task, float]) -> None:
        """[P]: drop variants that are mastered, too hard at the first visit (burn-in) or later."""
        for task in [t for t in self.active if t in judged]:
            why = "too hard" if task in self.first else "burn-in"
            why = "mastered" if judged[task] > MASTERED else why
            self.first.setdefault(task, judged[task])
            if not LOW <= judged[task] <= MASTERED:
                self.active.remove(task)
                self.retired[why] = self.retired.get(why, 0) + 1


def train(policy: Policy, tasks: list[Task], known: set[Task], args: argparse.Namespace) -> None:
    """The closed loop; the library makes variants in another process, beside the updates."""
    rng, buffer = random.Random(args.seed), Buffer(tasks)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=LEARNING_RATE, weight_decay=0.0)
    due, seen, seed_tasks = list[Task](), dict[Task, float](), list[Task]()  # seen: judged in epoch
    for step in range(1, args.updates + 1):
        # draw: each task of the pool once an epoch
        if len(due) < TASKS_PER_STEP:
            due += rng.sample(pool := buffer.originals + buffer.active, len(pool))
        drawn, due = due[:TASKS_PER_STEP], due[TASKS_PER_STEP:]
        # roll out
        batch = roll_out(policy, drawn, K)
        # score
        rewards = score(batch).view(-1, K)
        # judge: training needs these rewards anyway
        judged = dict(zip(drawn, rewards.mean(1).tolist(), strict=True))
        seen |= judged
        # request variants of boundary tasks, once an epoch
        epoch_ends = len(due) < TASKS_PER_STEP
        if epoch_ends and args.curriculum == "rods":
            seed_tasks, seen = choose_seed_tasks(seen, seed_tasks), {}
            buffer.pending += [new for task in seed_tasks for new in variants(task, rng, known)]
        # update: GRPO; a group without variance teaches nothing
        advantage = advantages(rewards).flatten()
        for _ in range(PASSES if advantage.any() else 0):
            optimizer.zero_grad()
            grpo_loss(policy, batch, advantage).backward()
            optimizer.step()
        # ingest variants: the next epoch draws them
        if epoch_ends:
            buffer.ingest()
        # retire
        buffer.retire(judged)
        equal, first = (rewards.std(1) == 0).sum(), torch.tensor([*buffer.first.values()]).mean()
        line = f"update {step:3}  reward {rewards.mean():.2f}  groups without variance"
        line += f" {equal}/{len(drawn)}  variants {len(buffer.active):2}, first rewards {first:.2f}"
        print(f"{line}, retired {buffer.retired}")


def demonstration(calls: Calls, rng: random.Random) -> list[int]:
    """Ids of an answer to learn from: its calls often have a habit, sometimes a slip."""
    words: list[str] = []
    for name, box, n in calls:
        name = "put" if name == "take" and rng.random() < HABIT else name
        words += [";", name, box, rng.choice(NUMBERS) if rng.random() < SLIP else n]
    return [WORDS.index(word) for word in words[1:]] + [END] * (ANSWER + 1 - len(words))


def new_policy(rng: random.Random, known: set[Task], steps: int) -> Policy:
    """A small Llama after supervised steps on demonstrations that are often wrong."""
    config = LlamaConfig(vocab_size=len(WORDS), hidden_size=64, num_attention_heads=4)
    config.intermediate_size, config.num_hidden_layers = 128, 2
    policy = Policy(config)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-3)
    for _ in range(steps):
        batch = Batch(original_tasks(rng, 32, set(known)))
        for turn in range(TURNS):
            batch.read([f"user {task.messages[turn]} agent" for task in batch.tasks])
            ids = torch.tensor([demonstration(task.truth[turn], rng) for task in batch.tasks])
            batch.extend(ids, ids.eq(END).cumsum(1) <= 1, torch.zeros(ids.shape))
            batch.read(["ok"] * len(ids))
        mask = batch.sampled[:, 1:]
        logits, labels = policy(batch.ids[:, :-1]).logits[mask], batch.ids[:, 1:][mask]
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(logits, labels).backward()
        optimizer.step()
    return policy


def evaluate(policy: Policy, tasks: list[Task], when: str) -> None:
    """Print the mean reward of held-out tasks."""
    greedy, sampled = (score(roll_out(policy, tasks, 4, t)).mean() for t in (0.0, 1.0))
    print(f"held-out progress {when}: greedy {greedy:.2f}, sampled {sampled:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="RODS on one page")
    parser.add_argument("--curriculum", choices=("rods", "static"), default="rods")
    for name, default in {"updates": 40, "seed": 0, "tasks": 12, "warm-up": 150}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # the policy is too small for more
    rng, known = random.Random(args.seed), set[Task]()
    held_out, tasks = (original_tasks(rng, n, known) for n in (60, args.tasks))  # none is in both
    policy = new_policy(rng, known, args.warm_up)
    evaluate(policy, held_out, "before")
    train(policy, tasks, known, args)
    evaluate(policy, held_out, "after")


if __name__ == "__main__":
    main()
