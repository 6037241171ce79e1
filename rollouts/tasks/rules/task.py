"""Text tasks: their protocol, the built-in ones, and their construction from lesson specs."""

import dataclasses
import hashlib
import math
import random
import re
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal, NamedTuple, Protocol, runtime_checkable

from runs.config.rules.language_config import LanguageConfig

Mode = Literal["train", "eval"]
KIND: Final = "task:"
MOST: Final = 1000
"""Maximum of every argument: larger values are mistakes that would exhaust memory."""
BYTES_VOCABULARY: Final = 257
"""One token per byte, and the end token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One problem of a task."""

    key: str
    """Task, mode and number; the same key always means the same problem."""
    prompt: str
    answer: str
    """Expected answer; a multi-turn task may store other data to check."""
    messages: Sequence[Mapping[str, str]] = ()
    """Conversation with `role` and `content` that the tokenizer's chat template renders; empty if
    `prompt` is the whole text."""
    tokens: Sequence[int] = ()
    """Prompt in tokens of the run's tokenizer; empty if `prompt` or `messages` is the prompt."""


class Turn(NamedTuple):
    """Output of the policy in one turn."""

    text: str
    is_truncated: bool = False
    """Whether the turn was cut off at its maximum length."""


class Reply(NamedTuple):
    """Response of the task to the policy's turns so far."""

    text: str
    """Next input of the policy; empty when the episode is over."""
    is_over: bool
    reward: float
    """Reward of the whole episode, in [0, 1]; 0 while it continues, NaN without a score."""
    is_correct: bool = False


class EpisodeFailed(Exception):
    """The task cannot continue or score an episode; `kind` is that of the event.

    The short-group policy of the lesson decides about its group.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Task(Protocol):
    """Problems of one kind and difficulty.

    An episode is ``reply = task.reply(example, turns)`` after each turn, until it is over.
    """

    @property
    def name(self) -> str:
        """Kind and difficulty."""

    @property
    def most_turns(self) -> int:
        """Turns of the policy in one episode."""

    @property
    def alphabet(self) -> Sequence[str]:
        """Texts of the tokens of prompts, answers and replies: characters or words."""

    def example(self, random: random.Random, *, key: str) -> Example:
        """Return a problem determined only by the random draws."""

    def reply(self, example: Example, turns: list[Turn]) -> Reply:
        """Score the last of one or more turns."""

    def demonstrate(self, example: Example) -> tuple[str, ...]:
        """Return the turns of a correct solution, for behavior cloning."""


@runtime_checkable
class StoredTask(Protocol):
    """A task whose problems are stored instead of drawn.

    With a method ``rows(mode)``, which returns the number of problems of one pass, the passes of
    its lesson are counted.
    """

    def problem(self, number: int, *, mode: Mode, seed: int) -> Example:
        """Return problem `number`, 0 or more, in an order that depends on mode and seed."""


def examples(task: Task, numbers: Iterable[int], *, mode: Mode, seed: int) -> list[Example]:
    """Return the problems with these numbers; training and evaluation overlap only by chance.

    Args:
        task: Task that creates them.
        numbers: Numbers of the examples, 0 or more.
        mode: Part of the random seed.
        seed: Seed of the run; evaluation always uses the same.
    """
    if isinstance(task, StoredTask):
        return [task.problem(number, mode=mode, seed=seed) for number in numbers]
    found = []
    for number in numbers:
        name = f"{task.name}/{mode}/{seed}/{number}"
        drawn = random.Random(hashlib.blake2s(name.encode()).digest())  # noqa: S311 no secret
        found.append(task.example(drawn, key=name))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Reverse:
    """Write a word backwards: the answer to ``abc>`` is ``cba``."""

    length: int = 3
    """Number of letters; the difficulty."""
    letters: int = 26
    """Number of different letters."""
    most_turns: ClassVar[int] = 1

    @property
    def name(self) -> str:
        return f"reverse-{self.length}"

    @property
    def alphabet(self) -> str:
        return string.ascii_lowercase[: self.letters] + ">"

    def example(self, random: random.Random, *, key: str) -> Example:
        """Return a word of random letters."""
        word = "".join(random.choices(string.ascii_lowercase[: self.letters], k=self.length))
        return Example(key=key, prompt=f"{word}>", answer=word[::-1])

    def reply(self, example: Example, turns: list[Turn]) -> Reply:
        """Score the answer; letters in the right order earn partial credit."""
        return judged(example.answer, turns[-1])

    def demonstrate(self, example: Example) -> tuple[str, ...]:
        return (example.answer,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sort:
    """Write digits in order: the answer to ``3142:`` is ``1234``."""

    length: int = 4
    """Number of digits; the difficulty."""
    most_turns: ClassVar[int] = 1

    @property
    def name(self) -> str:
        return f"sort-{self.length}"

    @property
    def alphabet(self) -> str:
        return string.digits + ":"

    def example(self, random: random.Random, *, key: str) -> Example:
        """Return random digits."""
        drawn = random.choices(string.digits, k=self.length)
        return Example(key=key, prompt=f"{''.join(drawn)}:", answer="".join(sorted(drawn)))

    def reply(self, example: Example, turns: list[Turn]) -> Reply:
        """Score the answer; digits in the right order earn partial credit."""
        return judged(example.answer, turns[-1])

    def demonstrate(self, example: Example) -> tuple[str, ...]:
        return (example.answer,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """Add two numbers: the answer to ``12+34=`` is ``46``."""

    digits: int = 2
    """Maximum digits of each number; the difficulty."""
    most_turns: ClassVar[int] = 1

    @property
    def name(self) -> str:
        return f"addition-{self.digits}"

    @property
    def alphabet(self) -> str:
        return string.digits + "+="

    def example(self, random: random.Random, *, key: str) -> Example:
        """Return two random numbers."""
        first, second = (random.randrange(10**self.digits) for _ in range(2))
        return Example(key=key, prompt=f"{first}+{second}=", answer=str(first + second))

    def reply(self, example: Example, turns: list[Turn]) -> Reply:
        """Score the answer: right or wrong."""
        is_correct = _answer_of(turns[-1]) == example.answer
        return Reply("", is_over=True, reward=float(is_correct), is_correct=is_correct)

    def demonstrate(self, example: Example) -> tuple[str, ...]:
        return (example.answer,)


def judged(answer: str, turn: Turn) -> Reply:
    """Return 1 for the exact answer, otherwise partial credit up to 0.5 for its similarity.

    The similarity is twice the characters in matching blocks over all characters of both (Ratcliff
    and Obershelp, Dr. Dobb's Journal 1988): near misses get a learning signal.
    """
    given_answer = _answer_of(turn)
    is_correct = given_answer == answer
    near = SequenceMatcher(None, given_answer, answer, autojunk=False).ratio()
    return Reply("", is_over=True, reward=1.0 if is_correct else 0.5 * near, is_correct=is_correct)


def _answer_of(turn: Turn) -> str:
    """Return a turn without surrounding whitespace; a truncated turn counts as no answer."""
    return "" if turn.is_truncated else turn.text.strip()


BUYERS: Final = ("Ana", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gia", "Hugo")
GOODS: Final = ("apples", "books", "candles", "drums", "eggs", "kites", "lamps", "pens")
CALL: Final = ('<tool_call>{"name": "calculate", "arguments": {"expression": "', '"}}</tool_call>')
RESULT: Final = ("<tool_response>", "</tool_response>")
_EXPRESSION: Final = re.compile(r"\d{1,6}(?:[+*]\d{1,6}){0,31}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shopping:
    """Compute a price with a tool that calculates.

    The answer to ``Ana buys 4 pens at 3 coins each. How much does Ana pay?`` is a call of the tool
    in Hermes' form, with the expression ``4*3``, and then ``Ana pays 12 coins.``. The tool returns
    ``error`` for anything but sums of products.
    """

    goods: int = 2
    """Number of goods; the difficulty."""
    highest: int = 9
    """Largest quantity and largest price; the smallest is 2."""
    most_turns: ClassVar[int] = 2
    alphabet: ClassVar[Sequence[str]] = (
        *(f"{word} " for word in (*BUYERS, *GOODS, "buys", "at", "and", "How", "much", "does")),
        *(" coins each", " coins", "pays ", "pay?", "error", ". ", *CALL, *RESULT),
        *(string.digits + "+*. \n"),
    )
    """One token per word: a small model learns sentences of words sooner than of letters."""

    @property
    def name(self) -> str:
        return f"shopping-{self.goods}"

    def example(self, random: random.Random, *, key: str) -> Example:
        """Return a purchase of random quantities at random prices."""
        buyer = random.choice(BUYERS)
        highest = max(2, self.highest)
        drawn = [
            (random.randint(2, highest), random.randint(2, highest)) for _ in range(self.goods)
        ]
        named = [f"{many} {random.choice(GOODS)} at {price} coins each" for many, price in drawn]
        total = sum(many * price for many, price in drawn)
        prompt = f"{buyer} buys {' and '.join(named)}. How much does {buyer} pay?\n"
        return Example(key=key, prompt=prompt, answer=f"{buyer} pays {total} coins.")

    def reply(self, example: Example, turns: list[Turn]) -> Reply:
        """Compute the expression of a call, or score the answer."""
        turn = turns[-1]
        text = _answer_of(turn)
        begin, end = CALL
        if text.startswith(begin) and text.endswith(end) and len(turns) < self.most_turns:
            value = _value_of(text.removeprefix(begin).removesuffix(end))
            result = "error" if value is None else str(value)
            return Reply(f"{RESULT[0]}{result}{RESULT[1]}\n", is_over=False, reward=0.0)
        is_correct = text == example.answer
        return Reply("", is_over=True, reward=float(is_correct), is_correct=is_correct)

    def demonstrate(self, example: Example) -> tuple[str, ...]:
        """Return the call and the answer."""
        numbers = re.findall(r"\d+", example.prompt)
        products = (
            f"{many}*{price}" for many, price in zip(numbers[::2], numbers[1::2], strict=True)
        )
        return (f"{CALL[0]}{'+'.join(products)}{CALL[1]}", example.answer)


def _value_of(expression: str) -> int | None:
    """Return the value of a sum of products of whole numbers; None for any other text."""
    if not _EXPRESSION.fullmatch(expression):
        return None
    return sum(math.prod(map(int, product.split("*"))) for product in expression.split("+"))


TASKS: Final[Mapping[str, type[Reverse | Sort | Addition | Shopping]]] = MappingProxyType(
    {"reverse": Reverse, "sort": Sort, "addition": Addition, "shopping": Shopping}
)


class InvalidTask(ValueError):
    """The task does not exist or does not accept the argument; the text names it."""


def make_task(spec: str, kwargs: Mapping[str, Any]) -> Task:
    """Return the task of `spec`, with its difficulty in `kwargs`.

    Raises:
        InvalidTask: With the spec or the argument.
    """
    kind = TASKS.get(spec.removeprefix(KIND)) if spec.startswith(KIND) else None
    if kind is None:
        known = ", ".join(KIND + name for name in TASKS)
        raise InvalidTask(f"spec: {spec} is unknown; choose from {known}")
    names = [field.name for field in dataclasses.fields(kind)]
    for name, value in kwargs.items():
        if name not in names:
            raise InvalidTask(f"kwargs.{name}: {spec} accepts only {', '.join(names)}")
        if type(value) is not int or not 1 <= value <= MOST:
            raise InvalidTask(f"kwargs.{name}: {value!r} is not an integer from 1 to {MOST}")
    return kind(**kwargs)


def alphabet_of(tasks: Iterable[Task]) -> tuple[str, ...]:
    """Return every token of some tasks once, ordered by code point."""
    return tuple(sorted({token for task in tasks for token in task.alphabet}))


def unknown_stop_token(language: LanguageConfig, *, vocab_size: int) -> tuple[str, str] | None:
    """Return the path below `language` of the first id outside the vocabulary, and the reason."""
    for name, lesson in language.lessons.items():
        for place, token in enumerate(lesson.sampling.stop_token_ids):
            if token >= vocab_size:
                return (
                    f"lessons.{name}.sampling.stop_token_ids[{place}]",
                    f"token {token} is outside the vocabulary, 0 to {vocab_size - 1}",
                )
    return None


def built_in_vocabulary(language: LanguageConfig) -> int | None:
    """Return the number of tokens of a built-in tokenizer; None for a checkpoint's."""
    if language.model.tokenizer == "bytes":
        return BYTES_VOCABULARY
    if language.model.tokenizer == "checkpoint":
        return None
    try:
        tasks = [make_task(lesson.spec, lesson.kwargs) for lesson in language.lessons.values()]
    except InvalidTask:
        # Workers refuse this tokenizer for lessons other than built-in tasks.
        return None
    return len(alphabet_of(tasks)) + 1
