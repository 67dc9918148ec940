"""Reading pages as a person without JavaScript does: links, forms and their buttons."""

from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any

from django.test import Client

VOID = {"input", "link", "meta", "br", "img", "hr"}


class Node:
    """An element of a page."""

    def __init__(self, tag: str, attributes: Mapping[str, str]) -> None:
        self.tag = tag
        self.attributes = dict(attributes)
        self.children: list[Node | str] = []

    def __getitem__(self, name: str) -> str:
        return self.attributes[name]

    def all(self, tag: str = "", **wanted: str) -> "list[Node]":
        """Return the elements inside that have this tag, and in each of these attributes this word.

        What is in a template is not shown, so it is left out.
        """
        found = []
        for child in self.children:
            if isinstance(child, Node) and child.tag != "template":
                named = {name.strip("_").replace("_", "-"): word for name, word in wanted.items()}
                if tag in ("", child.tag) and all(
                    word in child.attributes.get(name, "").split() or word == child.attributes.get(name)
                    for name, word in named.items()
                ):
                    found.append(child)
                found += child.all(tag, **wanted)
        return found

    def one(self, tag: str = "", **wanted: str) -> "Node":
        (found,) = self.all(tag, **wanted)
        return found

    @property
    def text(self) -> str:
        """The text inside, on one line."""
        parts = [child if isinstance(child, str) else child.text for child in self.children]
        return " ".join(" ".join(parts).split())

    def link(self, text: str) -> str:
        (href,) = {node["href"] for node in self.all("a") if node.text == text}
        return href


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Node("", {})]

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        node = Node(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def read(html: str) -> Node:
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert [node.tag for node in reader.open] == [""]
    return reader.open[0]


class Visitor:
    """A person who follows links and sends forms; `page` is what they see, `url` where they are."""

    url = ""

    def __init__(self, client: Client, url: str, *, status: int = 200) -> None:
        self.client = client
        self.go(url, status=status)

    def go(self, url: str, *, status: int = 200) -> "Visitor":
        return self._see(self.client.get(_absolute(url, self.url), follow=True), url, status)

    def send(self, button: str, *, status: int = 200, **fields: str) -> "Visitor":
        """Press the button of this text, with these fields of its form filled in."""
        (pressed,) = [node for node in self.page.all("button") if node.text == button]
        if "form" in pressed.attributes:
            form = self.page.one("form", id=pressed["form"])
        else:
            (form,) = [form for form in self.page.all("form") if pressed in form.all("button")]
        filled = {node["name"]: node.attributes.get("value", "") for node in form.all("input")} | fields
        if "name" in pressed.attributes:
            filled[pressed["name"]] = pressed["value"]
        url = pressed.attributes.get("formaction") or form.attributes.get("action") or self.url
        send = self.client.get if form.attributes.get("method") == "get" else self.client.post
        return self._see(send(url, filled, follow=True), url, status)

    def _see(self, response: Any, url: str, status: int) -> "Visitor":
        assert response.status_code == status, response.content.decode()
        assert response["Content-Type"] == "text/html; charset=utf-8"
        self.url = (
            response.redirect_chain[-1][0] if response.redirect_chain else _absolute(url, getattr(self, "url", ""))
        )
        self.html = response.content.decode()
        self.page = read(self.html)
        return self

    @property
    def rows(self) -> list[Node]:
        return self.page.all("li", class_="ag-ui-row")

    @property
    def said(self) -> list[str]:
        return [node.text for node in self.page.all("div", class_="ag-ui-text")]


def _absolute(url: str, base: str) -> str:
    return base.partition("?")[0] + url if url.startswith("?") else url
