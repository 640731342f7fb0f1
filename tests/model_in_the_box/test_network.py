"""The training modules against transformers' models of the same configuration: needs torch and transformers.

python3 -m unittest test_network
"""

import unittest

import torch
import transformers as hf

import configurations
import copying
from network import Network

KINDS = {"qwen3moe": hf.Qwen3MoeForCausalLM, "qwen35moe": hf.Qwen3_5MoeForCausalLM}


class Networks(unittest.TestCase):
    def compare(self, name: str) -> None:
        torch.manual_seed(0)
        config = configurations.BY_NAME[name](512)
        network = Network(config)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.mul_(3) if parameter.ndim > 1 else parameter.add_(torch.randn_like(parameter) * 0.2)
        model = KINDS[name](config).eval()
        model.load_state_dict(network.state_dict())
        # Borders of documents inside chunks and near their ends; one document of several chunks.
        lengths = [70, 150, 40, 2, 61, 5]
        parts = [torch.randint(0, 512, (1, length)) for length in lengths]
        row = torch.cat(parts, 1)
        document = torch.cat([torch.full((1, n), i + 1) for i, n in enumerate(lengths)], 1)
        position = torch.cat([torch.arange(n)[None] for n in lengths], 1)
        with torch.no_grad():
            got = network.lm_head(network(row, document, position))
            expected = torch.cat([model(part).logits for part in parts], 1)
        self.assertLess((got - expected).abs().max().item(), 1e-4 * expected.abs().max().item())

    def test_qwen3moe(self):
        self.compare("qwen3moe")

    def test_qwen35moe(self):
        self.compare("qwen35moe")

    def test_copying(self):
        """From the first step on, tokens of no order are guessed better where they come again."""
        torch.manual_seed(0)
        config = configurations.qwen3moe(512)
        row = torch.randint(0, 512, (16, 24)).repeat(1, 2)
        position = torch.arange(48).repeat(16, 1)
        surprise = []
        for begin in (lambda network: None, copying.lay):
            network = Network(config)
            begin(network)
            with torch.no_grad():
                logs = network.lm_head(network(row, torch.ones_like(row), position)).log_softmax(-1)
            surprise.append(-logs[:, 24:-1].gather(2, row[:, 25:, None]).mean().item())
        self.assertLess(surprise[1], surprise[0] - 0.5)


if __name__ == "__main__":
    unittest.main()
