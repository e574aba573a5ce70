"""A template's source made to tell the sandbox of every value it builds, which Jinja does only of calls.

Loops, ``~``, literals of lists and dicts, parts of lists and comparisons go through filters of the sandbox
(``template_sandbox.py``); text between tags is written like any expression, so that repeating it counts.
"""

from __future__ import annotations

from typing import Any

from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.visitor import NodeTransformer

__all__ = ["COUNTED", "JOINED", "TAKEN", "WEIGHED", "GenerationTag", "rewritten"]

COUNTED, JOINED, TAKEN, WEIGHED = "_counted", "_joined", "_taken", "_weighed"
"""Filters: each value of a loop is a step; texts put together; a new value; an old one about to be read whole."""


def rewritten(tree: nodes.Template) -> nodes.Template:
    """``tree`` with everything above sent through those filters."""
    found = _Rewrite().visit(tree)
    assert isinstance(found, nodes.Template)
    return found


class GenerationTag(Extension):
    """Passes ``{% generation %}…{% endgeneration %}`` through: the tag only marks what training masks."""

    tags: set[str] = {"generation"}  # noqa: RUF012 - an instance attribute of the base class

    def parse(self, parser: Any) -> Any:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Rewrite(NodeTransformer):
    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        node.iter = _through(COUNTED, node.iter)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _through(JOINED, nodes.List(node.nodes, lineno=node.lineno))

    def visit_List(self, node: nodes.List) -> nodes.Node:
        self.generic_visit(node)
        return _through(TAKEN, node)

    visit_Dict = visit_List

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
        self.generic_visit(node)
        # Others are targets of assignments.
        return _through(TAKEN, node) if node.ctx == "load" else node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        return _through(TAKEN, node) if isinstance(node.arg, nodes.Slice) else node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        self.generic_visit(node)
        node.expr = _through(WEIGHED, node.expr)
        for operand in node.ops:
            operand.expr = _through(WEIGHED, operand.expr)
        return node

    def visit_TemplateData(self, node: nodes.TemplateData) -> nodes.Node:
        text = nodes.Const(node.data, lineno=node.lineno)
        return nodes.MarkSafeIfAutoescape(text, lineno=node.lineno)


def _through(name: str, node: nodes.Node) -> nodes.Filter:
    assert isinstance(node, nodes.Expr)
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)
