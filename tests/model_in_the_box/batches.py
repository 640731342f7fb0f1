"""Rows of token ids for training: documents packed side by side, each token with its weight in the loss.

Seven of eight batches hold short documents in rows of 256, the eighth long ones (text, conversations) in rows of
512; from batch `late` on in other shares. Answers count fully, what the user says a little. What must stay true: batch number n of a seed is always the
same, so that a restarted training goes on as if it had not stopped.
"""

from dataclasses import dataclass

import torch

import documents

PROMPT_WEIGHT = 0.1


@dataclass
class Batch:
    tokens: torch.Tensor  # [rows, length]
    targets: torch.Tensor
    weights: torch.Tensor
    document: torch.Tensor
    position: torch.Tensor


class Batches:
    def __init__(self, tokenizer, seed: int, tokens: int, late: int):
        self.tokenizer, self.seed, self.tokens, self.late = tokenizer, seed, tokens, late
        self.start, self.end = (tokenizer.token_to_id(t) for t in ("<|im_start|>", "<|im_end|>"))
        self.pad = tokenizer.token_to_id("<|endoftext|>")
        self.newline = tokenizer.encode("\n").ids[0]
        self.assistant = tokenizer.encode("assistant").ids

    def encode(self, document: documents.Document):
        """Token ids and their weights as targets."""
        ids = self.tokenizer.encode(documents.rendered(document)).ids
        if document.text:
            return ids, [1.0] * len(ids)
        weights, answering, i = [PROMPT_WEIGHT] * len(ids), False, 0
        openings = [
            i for i, token in enumerate(ids) if token == self.start and ids[i + 1 : i + 1 + len(self.assistant)] == self.assistant
        ]
        if document.only_last:
            openings = openings[-1:]
        for opening in openings:
            i = opening + 2 + len(self.assistant)
            while True:
                weights[i] = 1.0
                if ids[i] == self.end:
                    break
                i += 1
        return ids, weights

    def number(self, index: int) -> Batch:
        generator = documents.Generator(f"{self.seed}/{index}", late=index >= self.late)
        long = index % 8 == 7
        length = 512 if long else 256
        rows = [[] for _ in range(self.tokens // length)]
        filled = [0] * len(rows)
        misses = 0
        while misses < 12:
            if not long:
                document = generator.document()
            elif generator.random.random() < 0.55:
                document = generator.text(generator.random.randint(1, 5))
            else:
                document = generator.conversation(generator.random.randint(2, 6))
            ids, weights = self.encode(document)
            fit = next((i for i, used in enumerate(filled) if used + len(ids) <= length), None)
            if fit is None:
                misses += 1
                continue
            rows[fit].append((ids, weights))
            filled[fit] += len(ids)
        return self.packed(rows, length)

    def packed(self, rows: list, length: int) -> Batch:
        shape = (len(rows), length)
        tokens = torch.full(shape, self.pad)
        targets = torch.full(shape, self.pad)
        weights = torch.zeros(shape)
        document = torch.zeros(shape, dtype=torch.long)
        position = torch.arange(length).repeat(len(rows), 1)
        for r, row in enumerate(rows):
            at = 0
            for d, (ids, worth) in enumerate(row):
                size = len(ids)
                tokens[r, at : at + size] = torch.tensor(ids)
                targets[r, at : at + size - 1] = torch.tensor(ids[1:])
                weights[r, at : at + size - 1] = torch.tensor(worth[1:])
                document[r, at : at + size] = d + 1
                position[r, at : at + size] = torch.arange(size)
                at += size
        return Batch(tokens, targets, weights, document, position)
