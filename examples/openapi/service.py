"""An ordinary REST service: equipment by id, and who has borrowed it.

uvicorn service:app             # as a service of its own, with docs at http://127.0.0.1:8000/docs
"""

from typing import Annotated, Literal

from fastapi import FastAPI, HTTPException, Path, Query
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field


def name_of(route: APIRoute) -> str:
    """Operations are named like their functions, and FastMCP names tools like operations."""
    return route.name


app = FastAPI(title="Equipment store", generate_unique_id_function=name_of)
Kind = Literal["camera", "light", "sound"]
ItemId = Annotated[str, Path(description="id of the item, such as CAM-1")]


class Item(BaseModel):
    name: str
    kind: Kind
    condition: Literal["good", "damaged"] = "good"
    note: str = ""


class Loan(BaseModel):
    item_id: str = Field(description="id of the item, such as CAM-1")
    member: str = Field(description="name of the member who borrows")
    days: int = Field(ge=1, le=14, description="length of the loan, 1 to 14 days")


class Damage(BaseModel):
    note: str = Field(description="what is broken, in a few words")


class Store(BaseModel):
    items: dict[str, Item] = {}
    loans: dict[str, Loan] = {}
    lent: int = 0


store = Store()


def item_of(item_id: str) -> Item:
    if item_id not in store.items:
        raise HTTPException(404, f"there is no item {item_id}")
    return store.items[item_id]


@app.get("/items")
def find_items(kind: Annotated[Kind, Query(description="what to look for")]) -> dict[str, str]:
    """Find the items of a kind that can be borrowed now; gives their names by id."""
    away = {loan.item_id for loan in store.loans.values()}
    free = {key: item for key, item in store.items.items() if key not in away}
    return {k: i.name for k, i in free.items() if i.kind == kind and i.condition == "good"}


@app.get("/items/{item_id}")
def show_item(item_id: ItemId) -> Item:
    """Show one item with its condition."""
    return item_of(item_id)


@app.post("/loans")
def lend_item(loan: Loan) -> dict[str, str]:
    """Lend an item to a member; gives the id of the loan."""
    if item_of(loan.item_id).condition == "damaged":
        raise HTTPException(409, f"{loan.item_id} is damaged")
    if any(other.item_id == loan.item_id for other in store.loans.values()):
        raise HTTPException(409, f"{loan.item_id} is lent already")
    store.lent += 1
    loan_id = f"L-{store.lent}"
    store.loans[loan_id] = loan
    return {"loan_id": loan_id}


@app.get("/loans")
def find_loans(
    member: Annotated[str, Query(description="name of the member who borrowed")],
) -> dict[str, Loan]:
    """Find the open loans of a member, by id."""
    return {key: loan for key, loan in store.loans.items() if loan.member == member}


@app.delete("/loans/{loan_id}")
def end_loan(loan_id: Annotated[str, Path(description="id of the loan, such as L-1")]) -> Loan:
    """End a loan; gives what was lent."""
    if loan_id not in store.loans:
        raise HTTPException(404, f"there is no loan {loan_id}")
    return store.loans.pop(loan_id)


@app.patch("/items/{item_id}")
def report_damage(item_id: ItemId, damage: Damage) -> Item:
    """Mark an item as damaged; it cannot be lent any more."""
    item = item_of(item_id)
    item.condition, item.note = "damaged", damage.note
    return item


@app.get("/store")
def show_store() -> Store:
    """Show everything: for the judge, never for the agent."""
    return store


@app.put("/store")
def set_store(new: Store) -> None:
    """Begin again with this store."""
    store.items, store.loans, store.lent = new.items, new.loans, new.lent
