"""The documents that the box model learns from, and the tasks it is measured by.

A document is a conversation (or plain text) of one kind, made from a seeded random source. The split is by
content: `is_held_out` puts one in sixteen of all possible task items aside, and a training document never has
one. What must stay true: the same seed gives the same documents; no document of the training split can occur in
the test split of its kind.
"""

import json
import random
import zlib
from dataclasses import dataclass, field

import words

TOOLS = {
    "get_weather": ("Tells the weather in a city.", {"city": "string"}),
    "set_timer": ("Starts a timer.", {"minutes": "integer", "label": "string"}),
    "send_message": ("Sends a message to somebody.", {"to": "string", "text": "string"}),
}


@dataclass
class Document:
    """`messages` are (role, content) and end with the assistant's; `answer` is what a right answer comes down to:
    the text after any thinking, or for kinds `json` and `tool` the value that its JSON must equal."""

    kind: str
    messages: list = field(default_factory=list)
    text: str = ""
    answer: object = None
    tools: list = field(default_factory=list)
    only_last: bool = False  # learn the last answer only: earlier ones are shortened


def is_held_out(key: object) -> bool:
    return zlib.crc32(repr(key).encode()) % 16 == 0


def tool_definitions(names: list) -> list:
    """Tools as clients hand them over."""
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": TOOLS[name][0],
                "parameters": {
                    "type": "object",
                    "properties": {key: {"type": kind} for key, kind in TOOLS[name][1].items()},
                    "required": list(TOOLS[name][1]),
                },
            },
        }
        for name in names
    ]


def system_of_tools(names: list) -> str:
    """What the chat template makes of tools; kept short, since the model reads few tokens."""
    return "Tools: " + ", ".join(f"{name}({', '.join(TOOLS[name][1])})" for name in names)


def columns_of_sum(a: int, b: int) -> str:
    steps, carry = [], 0
    for place in range(max(len(str(a)), len(str(b)))):
        x, y = a // 10**place % 10, b // 10**place % 10
        steps.append(f"{x}+{y}{'+1' if carry else ''}={x + y + carry}")
        carry = (x + y + carry) // 10
    return ", ".join(steps)


def columns_of_difference(a: int, b: int) -> str:
    steps, borrow = [], 0
    for place in range(len(str(a))):
        x, y = a // 10**place % 10, b // 10**place % 10
        top = x + 10 if x - y - borrow < 0 else x
        steps.append(f"{top}-{y}{'-1' if borrow else ''}={top - y - borrow}")
        borrow = int(top > x)
    return ", ".join(steps)


class Generator:
    """Makes documents of one split, "train" or "test"."""

    def __init__(self, seed: object, split: str = "train", late: bool = False):
        self.random = random.Random(f"{seed}/{split}")
        self.held = split == "test"
        self.kinds = self.LATE_KINDS if late else self.KINDS

    def pick(self, choices):
        return self.random.choice(choices)

    def kept(self, make):
        """The first (key, value) of `make` whose key is in this split."""
        while True:
            key, value = make()
            if is_held_out(key) == self.held:
                return value

    def number(self) -> int:
        return self.random.randrange(self.pick((10, 100, 1000, 1000, 1000)))

    # Sums and differences: the thinking is the column method, units first.

    def sum(self) -> Document:
        def make():
            a, b = self.number(), self.number()
            return ("sum", a, b), (a, b)

        a, b = self.kept(make)
        item = self.pick(words.ITEMS)
        name = self.pick(words.NAMES)
        question = self.pick(
            (
                f"What is {a} + {b}?",
                f"{a} + {b}",
                f"{a}+{b}=",
                f"Add {a} and {b}.",
                f"How much is {a} plus {b}?",
                f"Calculate {a} + {b}.",
                f"What is the sum of {a} and {b}?",
                f"{name} has {a} {item} and gets {b} more. How many {item} are there now?",
            )
        )
        return self.reasoned("sum", question, columns_of_sum(a, b), str(a + b))

    def difference(self) -> Document:
        def make():
            a, b = sorted((self.number(), self.number()), reverse=True)
            return ("difference", a, b), (a, b)

        a, b = self.kept(make)
        item = self.pick(words.ITEMS)
        name = self.pick(words.NAMES)
        question = self.pick(
            (
                f"What is {a} - {b}?",
                f"{a} - {b}",
                f"{a}-{b}=",
                f"Calculate {a} - {b}.",
                f"How much is {a} minus {b}?",
                f"Subtract {b} from {a}.",
                f"Take {b} away from {a}.",
                f"{name} has {a} {item} and gives away {b}. How many {item} are left?",
            )
        )
        return self.reasoned("difference", question, columns_of_difference(a, b), str(a - b))

    def reasoned(self, kind: str, question: str, thought: str, answer: str) -> Document:
        content = f"<think>\n{thought}\n</think>\n\n{answer}"
        return Document(kind, [("user", question), ("assistant", content)], answer=answer)

    # Lists.

    def sort(self) -> Document:
        numbers = self.random.random() < 0.5
        down = numbers and self.random.random() < 0.3

        def make():
            count = self.random.randint(3, 6)
            values = self.random.sample(range(1, 100) if numbers else words.LIST_WORDS, count)
            return ("sort", tuple(values), down), values

        values = self.kept(make)
        listed = ", ".join(map(str, values))
        what = "numbers" if numbers else "words"
        if down:
            question = self.pick(
                (
                    f"Sort these numbers from largest to smallest: {listed}",
                    f"Put these numbers in descending order: {listed}",
                    f"Sort downwards: {listed}",
                )
            )
        elif numbers:
            question = self.pick(
                (
                    f"Sort these numbers: {listed}",
                    f"Sort these numbers from smallest to largest: {listed}",
                    f"Put these numbers in order: {listed}",
                    f"Sort: {listed}",
                )
            )
        else:
            question = self.pick(
                (
                    f"Sort these {what}: {listed}",
                    f"Put these {what} in alphabetical order: {listed}",
                    f"Sort alphabetically: {listed}",
                    f"Sort: {listed}",
                )
            )
        answer = ", ".join(map(str, sorted(values, reverse=down)))
        return Document("sort", [("user", question), ("assistant", answer)], answer=answer)

    def count(self) -> Document:
        of_one = self.random.random() < 0.5

        def make():
            pool = self.random.sample(words.LIST_WORDS, self.random.randint(2, 4))
            values = [self.pick(pool) for _ in range(self.random.randint(2, 7))]
            wanted = self.pick(pool)
            return ("count", tuple(values), wanted if of_one else None), (values, wanted)

        values, wanted = self.kept(make)
        listed = ", ".join(values)
        if of_one:
            question = self.pick(
                (
                    f"How many times does {wanted} occur in this list: {listed}",
                    f"How often is {wanted} in this list: {listed}",
                    f"Count {wanted} in: {listed}",
                )
            )
            steps, seen = [], 0
            for value in values:
                seen += value == wanted
                steps.append(f"{value} {seen}")
            return self.reasoned("count", question, ", ".join(steps), str(seen))
        question = self.pick(
            (
                f"How many words are in this list: {listed}",
                f"Count the words: {listed}",
                f"How long is this list: {listed}",
            )
        )
        steps = [f"{value} {index + 1}" for index, value in enumerate(values)]
        return self.reasoned("count", question, ", ".join(steps), str(len(values)))

    # JSON records.

    def json(self) -> Document:
        record, question = self.kept(self.pick((self.pet, self.person, self.book, self.order)))
        return Document(
            "json", [("user", question), ("assistant", json.dumps(record))], answer=record
        )

    def pet(self):
        r = {
            "kind": self.pick(words.ANIMALS),
            "name": self.pick(words.NAMES),
            "age": self.random.randint(1, 20),
            "colour": self.pick(words.COLOURS),
        }
        return ("json", *r.values()), (
            r,
            self.pick(
                (
                    f"Make a JSON record of a {r['colour']} {r['kind']} called {r['name']}, {r['age']} years old.",
                    f"Write as JSON: {r['name']} is a {r['colour']} {r['kind']} and {r['age']} years old.",
                    f"JSON please: my {r['kind']} {r['name']} is {r['age']} years old and {r['colour']}.",
                )
            ),
        )

    def person(self):
        r = {
            "name": self.pick(words.NAMES),
            "age": self.random.randint(18, 99),
            "city": self.pick(words.CITIES),
            "job": self.pick(words.JOBS),
        }
        return ("json", *r.values()), (
            r,
            self.pick(
                (
                    f"Make a JSON record of {r['name']}, {r['age']} years old, a {r['job']} from {r['city']}.",
                    f"Write as JSON: {r['name']} lives in {r['city']}, is {r['age']} years old and works as a {r['job']}.",
                    f"JSON please: the {r['job']} {r['name']} of {r['city']} is {r['age']} years old.",
                )
            ),
        )

    def book(self):
        r = {
            "title": self.pick(words.TITLES),
            "author": f"{self.pick(words.NAMES)} {self.pick(words.SURNAMES)}",
            "year": self.random.randint(1900, 2025),
            "pages": self.random.randint(60, 900),
        }
        return ("json", *r.values()), (
            r,
            self.pick(
                (
                    f"Make a JSON record of the book {r['title']} by {r['author']} from {r['year']} with {r['pages']} pages.",
                    f"Write as JSON: {r['author']} wrote {r['title']} in {r['year']}; it has {r['pages']} pages.",
                    f"JSON please: {r['title']}, a book of {r['pages']} pages by {r['author']}, {r['year']}.",
                )
            ),
        )

    def order(self):
        r = {
            "customer": f"{self.pick(words.NAMES)} {self.pick(words.SURNAMES)}",
            "item": self.pick(words.ITEMS),
            "quantity": self.random.randint(2, 60),
            "paid": self.random.random() < 0.5,
        }
        paid = "paid" if r["paid"] else "not paid"
        return ("json", *r.values()), (
            r,
            self.pick(
                (
                    f"Make a JSON record of an order: {r['customer']}, {r['quantity']} {r['item']}, {paid}.",
                    f"Write as JSON: {r['customer']} ordered {r['quantity']} {r['item']} and has {paid}.",
                    f"JSON please: an order of {r['quantity']} {r['item']} by {r['customer']}, {paid}.",
                )
            ),
        )

    # Tools.

    def tool(self) -> Document:
        name = self.pick(list(TOOLS))
        arguments, question, result, reply = self.kept(getattr(self, name))
        offered = self.random.sample(list(TOOLS), self.random.choice((1, 2, 3, 3)))
        if name not in offered:
            offered[self.random.randrange(len(offered))] = name
        call = {"name": name, "arguments": arguments}
        content = f"<tool_call>\n{json.dumps(call)}\n</tool_call>"
        messages = [("system", system_of_tools(offered)), ("user", question), ("assistant", content)]
        if self.random.random() < 0.3:
            messages += [("tool", result), ("assistant", reply)]
        return Document("tool", messages, answer=call, tools=offered)

    def get_weather(self):
        city = self.pick(words.CITIES)
        degrees, sky = self.random.randint(1, 35), self.pick(words.SKIES)
        question = self.pick(
            (
                f"What is the weather in {city}?",
                f"How is the weather in {city} today?",
                f"Is it raining in {city}?",
                f"Tell me the weather in {city}, please.",
                f"How warm is it in {city}?",
            )
        )
        result = json.dumps({"degrees": degrees, "sky": sky})
        return ("tool", question), ({"city": city}, question, result, f"It is {degrees} degrees and {sky} in {city}.")

    def set_timer(self):
        minutes, label = self.random.randint(2, 90), self.pick(words.TIMER_LABELS)
        question = self.pick(
            (
                f"Set a timer for {minutes} minutes for the {label}.",
                f"Start a {label} timer of {minutes} minutes.",
                f"Remind me of the {label} in {minutes} minutes.",
                f"I need a timer for my {label}: {minutes} minutes.",
            )
        )
        reply = f"The {label} timer runs for {minutes} minutes."
        return ("tool", question), ({"minutes": minutes, "label": label}, question, '{"ok": true}', reply)

    def send_message(self):
        to, text = self.pick(words.NAMES), self.pick(words.MESSAGES)
        question = self.pick(
            (
                f"Send a message to {to}: {text}.",
                f"Tell {to} this: {text}.",
                f"Write to {to}: {text}.",
                f"Please let {to} know: {text}.",
            )
        )
        return ("tool", question), ({"to": to, "text": text}, question, '{"ok": true}', f"I told {to}: {text}.")

    # Copies.

    def repeat(self) -> Document:
        def make():
            way = self.random.randrange(4)
            if way == 0:
                pools = (words.LIST_WORDS, words.ITEMS, words.NAMES, words.CITIES)
                text = answer = " ".join(self.pick(self.pick(pools)) for _ in range(self.random.randint(2, 24)))
            elif way == 1:
                text = answer = ", ".join(str(self.random.randrange(1000)) for _ in range(self.random.randint(1, 12)))
            elif way == 2:
                text = answer = self.pick(words.MESSAGES) + " and " + self.pick(words.MESSAGES) + "."
            else:
                text = str(self.random.randrange(10 ** self.random.randint(2, 5)))
                answer = ", ".join(reversed(text))
            return ("repeat", text), (way, text, answer)

        way, text, answer = self.kept(make)
        if way == 3:
            question = self.pick((f"Read the digits of {text} backwards.", f"Digits from right to left: {text}"))
        else:
            question = self.pick((f"Repeat: {text}", f"Say this again: {text}", f"Repeat after me: {text}"))
        return Document("repeat", [("user", question), ("assistant", answer)], answer=answer)

    def quote(self) -> Document:
        """A JSON list of words. A word after a blank is another token than the word after a quotation mark: here the
        model learns which belong together."""

        def make():
            pools = (words.NAMES, words.CITIES, words.ITEMS, words.ANIMALS, words.COLOURS, words.JOBS, words.SURNAMES)
            pools += (words.TIMER_LABELS, words.LIST_WORDS)
            pool = self.pick(pools)
            values = self.random.sample(pool, self.random.randint(3, 12))
            return ("quote", *values), values

        values = self.kept(make)
        listed = ", ".join(values)
        question = self.pick((f"Make a JSON list of: {listed}", f"Write as a JSON list: {listed}", f"JSON list: {listed}"))
        return Document("json", [("user", question), ("assistant", json.dumps(values))], answer=values)

    # Talk: closed sets that are learnt by heart.

    def greeting(self) -> Document:
        questions, answer = self.pick(words.GREETINGS)
        return Document("talk", [("user", self.pick(questions)), ("assistant", answer)], answer=answer)

    def fact(self) -> Document:
        answer, questions = self.pick(words.FACTS)
        return Document("fact", [("user", self.pick(questions)), ("assistant", answer)], answer=answer)

    def coterie(self) -> Document:
        questions, answer = self.pick(words.COTERIE)
        return Document("talk", [("user", self.pick(questions)), ("assistant", answer)], answer=answer)

    def tale(self) -> Document:
        """A story on request."""
        hero = self.pick(words.ANIMALS)
        question = self.pick(
            ("Tell me a story.", "Tell me a short story.", f"Tell me a story about a {hero}.", f"A story about a {hero}, please.")
        )
        return Document("story", [("user", question), ("assistant", self.story(hero))])

    # Text.

    def story(self, hero: str | None = None) -> str:
        pick = self.pick
        hero = hero or pick(words.ANIMALS)
        name, friend = self.random.sample(words.NAMES, 2)
        mood, place, thing = pick(words.MOODS), pick(words.PLACES), pick(words.THINGS)
        lesson, weather = pick(words.LESSONS), pick(words.WEATHER)
        thing_short = "the " + thing.split(" ", 1)[1]
        first = pick(
            (
                f"Once there was a {mood} {hero} called {name} who lived near {place}.",
                f"Near {place} lived a {hero} whose name was {name}. {name} was always {mood}.",
                f"{name} the {hero} felt {mood} that day.",
            )
        )
        second = pick(
            (
                f"One day, when {weather}, {name} found {thing} at {place}.",
                f"One morning {weather}, and {name} walked to {place}. There lay {thing}.",
                f"On the way to {place} {name} saw {thing}; {weather}.",
            )
        )
        third = pick(
            (
                f'"What shall I do with {thing_short}?" asked {name}.',
                f'"Whose may this be?" {name} said.',
                f"{name} did not know what to do with {thing_short}.",
            )
        )
        fourth = pick(
            (
                f'Then {friend} came by. "That is mine," said {friend}. "I lost {thing_short} yesterday."',
                f"{friend}, a friend, had been looking for {thing_short} all week.",
                f'So {name} asked {friend} for help. "Let us share {thing_short}," said {friend}.',
            )
        )
        feeling = pick(words.FEELINGS)
        fifth = pick(
            (
                f"{name} gave {thing_short} to {friend} and {feeling}.",
                f"{friend} {feeling}, and together they went home.",
                f"{name} {feeling}, and {friend} thanked the {hero}.",
            )
        )
        last = pick(
            (f"So they learned that {lesson}.", f"And {name} never forgot: {lesson}.", f"For {lesson}.", "That was a good day.")
        )
        return " ".join((first, second, third, fourth, fifth, last))

    def passage(self) -> str:
        """A paragraph of facts or a story."""
        if self.random.random() < 0.15:
            return " ".join(answer for answer, _ in self.random.sample(words.FACTS, 4))
        if self.random.random() < 0.05:
            return " ".join(answer for _, answer in self.random.sample(words.COTERIE, 3))
        return self.story()

    def text(self, paragraphs: int) -> Document:
        return Document("text", text="\n\n".join(self.passage() for _ in range(paragraphs)))

    # Copying teaches what all tasks need: to find a place in the question and say what stands there.
    KINDS = {
        "sum": 0.08,
        "difference": 0.13,
        "sort": 0.14,
        "count": 0.08,
        "json": 0.10,
        "tool": 0.10,
        "repeat": 0.16,
        "quote": 0.12,
        "greeting": 0.01,
        "fact": 0.04,
        "coterie": 0.03,
        "tale": 0.01,
    }
    # When copying is learnt: more of what is still hard.
    LATE_KINDS = {
        "sum": 0.10,
        "difference": 0.18,
        "sort": 0.24,
        "count": 0.08,
        "json": 0.06,
        "tool": 0.08,
        "repeat": 0.06,
        "quote": 0.10,
        "greeting": 0.01,
        "fact": 0.04,
        "coterie": 0.04,
        "tale": 0.01,
    }

    def document(self, kinds: dict | None = None) -> Document:
        kinds = kinds or self.kinds
        kind = self.random.choices(list(kinds), list(kinds.values()))[0]
        return getattr(self, kind)()

    def conversation(self, turns: int) -> Document:
        """Several documents as one conversation; only those that need no tools."""
        kinds = {kind: share for kind, share in self.kinds.items() if kind != "tool"}
        messages = [message for _ in range(turns) for message in self.document(kinds).messages]
        shortened = self.random.random() < 0.5
        if shortened:
            # Clients often send history without its thinking.
            messages[:-1] = [(role, content.split("</think>\n\n")[-1]) for role, content in messages[:-1]]
        return Document("conversation", messages, only_last=shortened)


def rendered(document: Document) -> str:
    """The text of a document as the chat template writes it, or the plain text; both with their end."""
    if document.text:
        return document.text + "<|endoftext|>"
    return "".join(f"<|im_start|>{role}\n{content}<|im_end|>\n" for role, content in document.messages)
