# SPDX-License-Identifier: Apache-2.0
"""A tree of token sequences: which tokens may come next when one of several texts is written.

Knows token ids and texts; knows no model and no grammar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from torch import Tensor, tensor


class TrieNode:
    """A place in the tree: the tokens that may follow, or the text that ends here."""

    def __init__(self) -> None:
        self.children: dict[int, TrieNode] = {}
        self.text: str | None = None
        self.next_ids: Tensor | None = None
        """Ids of ``children`` where there are several (children,)."""

    def forced(self) -> tuple[list[int], TrieNode]:
        """Follow the tokens that have no alternative; return them and where they lead."""
        tokens: list[int] = []
        node = self
        while len(node.children) == 1:
            ((token, node),) = node.children.items()
            tokens.append(token)
        return tokens, node


def build_trie(texts: Iterable[str], encode: Callable[[str], Sequence[int]]) -> TrieNode:
    """Put the texts' tokens into a tree.

    Raises:
        ValueError: a text has no token, or its tokens begin another text's.
    """
    root = TrieNode()
    nodes = [root]
    for text in texts:
        node = root
        for token in encode(text):
            if token not in node.children:
                node.children[token] = TrieNode()
                nodes.append(node.children[token])
            node = node.children[token]
        node.text = text
    for node in nodes:
        if node.text is not None and (node.children or node is root):
            raise ValueError(f'the tokens of {node.text!r} are empty or begin another text')
        if len(node.children) > 1:
            node.next_ids = tensor(list(node.children))
    return root
