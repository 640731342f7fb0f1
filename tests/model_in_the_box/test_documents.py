"""Tests of the box model's documents, with nothing but Python: python3 -m unittest test_documents"""

import json
import re
import unittest

import documents


def solved(expression: str) -> int:
    """A column as people compute it: terms and signs, left to right."""
    total = 0
    for sign, number in re.findall(r"([+-]?)(\d+)", expression):
        total += -int(number) if sign == "-" else int(number)
    return total


class Documents(unittest.TestCase):
    def made(self, kind, count=400, split="train", seed=3):
        generator = documents.Generator(seed, split)
        return [getattr(generator, kind)() for _ in range(count)]

    def test_the_same_seed_gives_the_same_documents(self):
        for kind in documents.Generator.KINDS:
            first = [documents.rendered(d) for d in self.made(kind, 40)]
            self.assertEqual(first, [documents.rendered(d) for d in self.made(kind, 40)])
            if kind not in ("greeting", "fact", "coterie"):
                self.assertNotEqual(first, [documents.rendered(d) for d in self.made(kind, 40, seed=4)])

    def test_columns_lead_to_the_answer(self):
        for kind, sign in (("sum", 1), ("difference", -1)):
            carried = 0
            for document in self.made(kind):
                question, answer = document.messages[0][1], document.messages[1][1]
                thought, final = re.fullmatch(r"<think>\n(.*)\n</think>\n\n(\d+)", answer).groups()
                a, b = (int(n) for n in re.findall(r"\d+", question))
                if sign < 0 and question.startswith(("Subtract", )):
                    a, b = b, a
                if sign < 0 and question.startswith("Take"):
                    a, b = b, a
                self.assertEqual(int(final), a + sign * b, question)
                self.assertEqual(document.answer, final)
                self.assertLess(max(a, b), 1000)
                self.assertGreaterEqual(int(final), 0)
                digits = []
                for column in thought.split(", "):
                    left, right = column.split("=")
                    self.assertEqual(solved(left), int(right), column)
                    digits.append(right if sign < 0 else right[-1])
                    carried += right != right[-1] or "-1=" in column
                if sign > 0:
                    digits[-1] = thought.split("=")[-1]
                self.assertEqual(int("".join(reversed(digits))), int(final), thought)
            self.assertGreater(carried, 50)

    def test_lists_are_sorted_and_counted(self):
        for document in self.made("sort"):
            listed = document.messages[0][1].split(": ")[1].split(", ")
            numbers = listed[0].isdigit()
            down = re.search("largest to smallest|descending|downwards", document.messages[0][1])
            expected = sorted(listed, key=int if numbers else str, reverse=bool(down))
            self.assertEqual(document.answer.split(", "), expected)
        for document in self.made("count"):
            question = document.messages[0][1]
            listed = question.split(": ")[1].split(", ")
            wanted = re.search(r"(?:does|often is|Count) (\w+) (?:occur|in)", question)
            expected = listed.count(wanted[1]) if wanted and "the words" not in question else len(listed)
            self.assertEqual(document.answer, str(expected), question)

    def test_records_are_json_and_their_values_are_in_the_request(self):
        for document in self.made("json"):
            question, answer = document.messages[0][1], document.messages[1][1]
            self.assertEqual(json.loads(answer), document.answer)
            for value in document.answer.values():
                if not isinstance(value, bool):
                    self.assertIn(str(value), question)

    def test_calls_fit_the_tools_offered(self):
        for document in self.made("tool"):
            call = json.loads(re.fullmatch(r"<tool_call>\n(.*)\n</tool_call>", document.messages[2][1])[1])
            self.assertEqual(call, document.answer)
            self.assertIn(call["name"], document.tools)
            self.assertEqual(list(call["arguments"]), list(documents.TOOLS[call["name"]][1]))
            for definition in documents.tool_definitions(document.tools):
                self.assertIn(definition["function"]["name"] + "(", document.messages[0][1])
            for value in call["arguments"].values():
                self.assertIn(str(value), document.messages[1][1])

    def test_no_training_item_is_held_out(self):
        def items(split):
            found = set()
            for kind in ("sum", "difference", "sort", "count", "json"):
                for document in self.made(kind, 3000, split):
                    thought = document.messages[-1][1]
                    found.add((kind, thought if kind != "json" else json.dumps(document.answer)))
            return found

        # The sum 12 + 7 reads like 7 + 12 in its thinking only where it is the same item.
        sums = {}
        for split in ("train", "test"):
            generator = documents.Generator(9, split)
            sums[split] = set()
            for _ in range(3000):
                question = generator.sum().messages[0][1]
                sums[split].add(tuple(int(n) for n in re.findall(r"\d+", question)))
        self.assertFalse(sums["train"] & sums["test"])
        self.assertGreater(len(sums["test"]), 2000)
        train, test = items("train"), items("test")
        records = [item for item in train & test if item[0] == "json"]
        self.assertFalse(records)

    def test_conversations_keep_their_last_answer_whole(self):
        generator = documents.Generator(5)
        shortened = 0
        for _ in range(200):
            document = generator.conversation(4)
            self.assertEqual([role for role, _ in document.messages], ["user", "assistant"] * 4)
            if document.only_last:
                shortened += 1
                self.assertFalse(any("<think>" in content for _, content in document.messages[:-1]))
        self.assertGreater(shortened, 50)

    def test_texts_are_ascii(self):
        generator = documents.Generator(6)
        for _ in range(300):
            documents.rendered(generator.document()).encode("ascii")
            documents.rendered(generator.text(2)).encode("ascii")


if __name__ == "__main__":
    unittest.main()
