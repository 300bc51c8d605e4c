"""Client of a retriever on another machine, in the request form of Search-R1 (`POST /retrieve`).

Owns the request and what an answer means. A service that is busy, broken or away is a failure of
infrastructure: `EnvError`, never an empty result. One that answers a plain query instead refuses
what the policy wrote, which is the policy's matter: `QueryRefused`.

    retriever = RemoteRetriever("http://retriever.example:8000")
    retriever.search("river of Okdal", 3)

The request is `{"queries": [...], "topk": 3, "return_scores": true}`, the answer
`{"result": [[{"document": {...}, "score": 1.5}, ...], ...]}`, one list a query. A document has one
of the two forms of `documents.py`; its id may be missing.
"""

from __future__ import annotations

from typing import Any

from rods.envs.search.documents import Hit, QueryRefused, document_of
from rods.errors import EnvError
from rods.infra.service import Service, ServiceFailure

PLAIN = "water"  # Every retriever can answer it; asked where a policy's query gets no answer


class RemoteRetriever:
    """Asks a retrieval service; `options` are those of `rods.infra.service.Service`."""

    def __init__(self, url: str, **options: Any) -> None:
        self._service = Service(url, "/retrieve", "env.search.corpus", **options)

    def search(self, query: str, limit: int) -> list[Hit]:
        """The best documents for a query, best first.

        Raises:
            QueryRefused: no usable answer came, but one to a plain query.
            EnvError: no usable answer came, after all repetitions.
        """
        asked = {"queries": [query], "topk": limit, "return_scores": True}
        plain = asked | {"queries": [PLAIN]}
        try:
            return self._service.ask(asked, lambda found: self._understand(found, limit), plain)[0]
        except ServiceFailure as failure:
            times = f"{failure.attempts} attempt{'s' * (failure.attempts > 1)}"
            kind = QueryRefused if failure.refused else EnvError
            raise kind(f"the retriever failed after {times}: {failure}") from failure

    def _understand(self, answer: object, limit: int) -> list[Hit]:
        found: object = answer.get("result") if isinstance(answer, dict) else None
        lists: list[object] = found if isinstance(found, list) else []
        if len(lists) != 1 or not isinstance(lists[0], list):
            raise ServiceFailure(
                f"{self._service.where} answered {str(answer)[:200]!r}, "
                "expected an object with 'result': a list with one list of documents",
                False,
            )
        try:
            return [_hit(row, i) for i, row in enumerate(lists[0][:limit])]
        except ValueError as error:
            raise ServiceFailure(
                f"{self._service.where} answered with a broken document: {error}", False
            ) from error


def _hit(row: object, number: int) -> Hit:
    """One row; without scores some services give the document alone."""
    data: dict[str, Any] = row if isinstance(row, dict) else {}
    inner = data.get("document", row)
    if isinstance(inner, dict):
        inner = {"id": str(number)} | inner
    score = data.get("score", 0.0)
    if not isinstance(score, int | float):
        raise ValueError(f"'score' is {score!r}, expected a number")
    return Hit(document_of(inner), float(score))
