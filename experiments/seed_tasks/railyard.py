"""Freight yard: wagons, tracks and trains."""

from rods.envs.tool_classes import ToolClasses


class RailYard:
    """A freight yard.

    Wagons stand on tracks and are put together to trains.
    """

    def __init__(
        self,
        wagons: dict[str, dict] | None = None,
        tracks: dict[str, dict] | None = None,
        trains: dict[str, dict] | None = None,
    ):
        self.wagons = wagons or {}
        self.tracks = tracks or {}
        self.trains = trains or {}

    def _on_track(self, track_id: str) -> list[str]:
        return [k for k, w in self.wagons.items() if w["track"] == track_id]

    def locate_wagon(self, wagon_id: str) -> dict:
        """Find out on which track a wagon stands.

        Args:
            wagon_id: Number of the wagon, e.g. W-3310.
        """
        wagon = self.wagons[wagon_id]
        return {"wagon_id": wagon_id, "track": wagon["track"], "train": wagon["train"]}

    def shunt_wagon(self, wagon_id: str, track_id: str) -> dict:
        """Shunt a wagon to another track.

        Args:
            wagon_id: Number of the wagon.
            track_id: The track to which the wagon goes.

        Returns:
            The wagon and the free places left on the track.
        """
        wagon, track = self.wagons[wagon_id], self.tracks[track_id]
        if track.get("closed"):
            raise ValueError(f"track {track_id} is closed")
        if wagon["track"] == track_id:
            raise ValueError("the wagon stands there already")
        if len(self._on_track(track_id)) >= track["places"]:
            raise ValueError("track is full")
        if wagon.get("brake_defect"):
            raise ValueError("wagon has a brake defect")
        wagon["track"] = track_id
        return {
            "wagon_id": wagon_id,
            "free_places": track["places"] - len(self._on_track(track_id)),
        }

    def list_track(self, track_id: str) -> dict:
        """List the wagons on a track.

        Args:
            track_id: Name of the track.
        """
        return {
            "track_id": track_id,
            "wagons": self._on_track(track_id),
            "places": self.tracks[track_id]["places"],
        }

    def close_track(self, track_id: str, reason: str) -> dict:
        """Close a track for traffic.

        Args:
            track_id: Name of the track.
            reason: Why it is closed, e.g. "points failure" or "track works".
        """
        if self.tracks[track_id].get("closed"):
            raise ValueError("already closed")
        self.tracks[track_id]["closed"] = reason
        return {"track_id": track_id, "closed": reason}

    def reopen_track(self, track_id: str) -> dict:
        """Reopen a closed track.

        Args:
            track_id: Name of the track.
        """
        if not self.tracks[track_id].get("closed"):
            raise ValueError("track is not closed")
        self.tracks[track_id]["closed"] = ""
        return {"track_id": track_id, "closed": ""}

    def load_wagon(self, wagon_id: str, cargo: str, tonnes: float) -> dict:
        """Load a wagon with cargo.

        Args:
            wagon_id: Number of the wagon.
            cargo: Kind of cargo, e.g. "gravel", "scrap" or "timber".
            tonnes: Weight of the cargo in tonnes.
        """
        wagon = self.wagons[wagon_id]
        if wagon["cargo"]:
            raise ValueError(f"wagon already carries {wagon['cargo']}")
        if tonnes > wagon["capacity"]:
            raise ValueError("too heavy")
        wagon["cargo"], wagon["tonnes"] = cargo, tonnes
        return {"wagon_id": wagon_id, "cargo": cargo, "tonnes": tonnes}

    def unload_wagon(self, wagon_id: str) -> dict:
        """Unload a wagon.

        Args:
            wagon_id: Number of the wagon.
        """
        wagon = self.wagons[wagon_id]
        if not wagon["cargo"]:
            raise ValueError("wagon is empty")
        cargo, tonnes = wagon["cargo"], wagon["tonnes"]
        wagon["cargo"], wagon["tonnes"] = "", 0
        return {"wagon_id": wagon_id, "unloaded": cargo, "tonnes": tonnes}

    def couple_wagon(self, wagon_id: str, train_id: str) -> dict:
        """Couple a wagon to a train.

        Args:
            wagon_id: Number of the wagon.
            train_id: Number of the train, e.g. T-47112.
        """
        wagon, train = self.wagons[wagon_id], self.trains[train_id]
        if wagon["train"]:
            raise ValueError(f"wagon is in train {wagon['train']}")
        if train["departed"]:
            raise ValueError("train has left")
        if wagon.get("brake_defect"):
            raise ValueError("wagon has a brake defect")
        wagon["train"] = train_id
        return {
            "train_id": train_id,
            "length": sum(w["train"] == train_id for w in self.wagons.values()),
        }

    def uncouple_wagon(self, wagon_id: str) -> dict:
        """Uncouple a wagon from its train.

        Args:
            wagon_id: Number of the wagon.
        """
        wagon = self.wagons[wagon_id]
        if not wagon["train"]:
            raise ValueError("wagon is in no train")
        train, wagon["train"] = wagon["train"], ""
        return {"wagon_id": wagon_id, "was_in": train}

    def report_brake_defect(self, wagon_id: str, note: str = "") -> dict:
        """Report a brake defect of a wagon.

        Args:
            wagon_id: Number of the wagon.
            note: What the wagon inspector saw.
        """
        self.wagons[wagon_id]["brake_defect"] = note or "yes"
        return {"wagon_id": wagon_id, "brake_defect": self.wagons[wagon_id]["brake_defect"]}

    def train_sheet(self, train_id: str) -> dict:
        """Print the consist sheet of a train.

        Args:
            train_id: Number of the train.

        Returns:
            The wagons, the weight and the destination.
        """
        wagons = [k for k, w in self.wagons.items() if w["train"] == train_id]
        return {
            "train_id": train_id,
            "to": self.trains[train_id]["to"],
            "wagons": wagons,
            "tonnes": sum(self.wagons[k]["tonnes"] for k in wagons),
        }

    def dispatch_train(self, train_id: str, minutes_late: int = 0) -> dict:
        """Dispatch a train.

        Args:
            train_id: Number of the train.
            minutes_late: Delay at departure in minutes.
        """
        train = self.trains[train_id]
        if train["departed"]:
            raise ValueError("train has left")
        if not any(w["train"] == train_id for w in self.wagons.values()):
            raise ValueError("no wagons")
        train["departed"] = True
        return {"train_id": train_id, "to": train["to"], "late": minutes_late}


def make():
    return ToolClasses("railyard", [RailYard])
