"""The appointments of a vet's clinic, as somebody writes a tool class who knows the guide alone."""

from __future__ import annotations

from typing import Any, Literal

from rods.envs.tool_classes import ToolClasses

Record = dict[str, Any]

OWNERS: dict[str, Record] = {
    "O-11": {"name": "Maria Lindqvist", "phone": "555-0134"},
    "O-12": {"name": "Dev Patel", "phone": "555-0188"},
    "O-13": {"name": "Grace Omondi", "phone": "555-0102"},
    "O-14": {"name": "Tom Brandt", "phone": "555-0175"},
}
PETS: dict[str, Record] = {
    "P-201": {"name": "Biscuit", "species": "dog", "owner_id": "O-11", "weight_kg": 14.5},
    "P-202": {"name": "Misty", "species": "cat", "owner_id": "O-12", "weight_kg": 4.2},
    "P-203": {"name": "Clover", "species": "rabbit", "owner_id": "O-13", "weight_kg": 1.9},
    "P-204": {"name": "Rocket", "species": "dog", "owner_id": "O-12", "weight_kg": 27.0},
    "P-205": {"name": "Olive", "species": "cat", "owner_id": "O-14", "weight_kg": 5.1},
}
VETS: dict[str, Record] = {
    "dr_amari": {"name": "Dr. Amari", "speciality": "surgery"},
    "dr_chen": {"name": "Dr. Chen", "speciality": "general"},
    "dr_novak": {"name": "Dr. Novak", "speciality": "dentistry"},
}
APPOINTMENTS: dict[str, Record] = {
    "A-501": {
        "pet_id": "P-201",
        "vet_id": "dr_chen",
        "day": "2026-03-02",
        "time": "09:30",
        "reason": "vaccination",
        "status": "booked",
    },
    "A-502": {
        "pet_id": "P-204",
        "vet_id": "dr_amari",
        "day": "2026-03-02",
        "time": "11:00",
        "reason": "limping",
        "status": "booked",
    },
    "A-503": {
        "pet_id": "P-202",
        "vet_id": "dr_novak",
        "day": "2026-03-03",
        "time": "14:00",
        "reason": "bad teeth",
        "status": "booked",
    },
}
MEDICINES: dict[str, Record] = {
    "carprofen": {"stock": 40, "price": 0.9},
    "amoxicillin": {"stock": 25, "price": 0.6},
    "ivermectin": {"stock": 8, "price": 2.4},
}


class VetClinic:
    """Appointments, patients and prescriptions."""

    def __init__(
        self,
        owners: dict[str, Record] | None = None,
        pets: dict[str, Record] | None = None,
        vets: dict[str, Record] | None = None,
        appointments: dict[str, Record] | None = None,
        medicines: dict[str, Record] | None = None,
        bills: dict[str, float] | None = None,
        next_id: int = 600,
    ):
        self.owners = owners if owners is not None else OWNERS
        self.pets = pets if pets is not None else PETS
        self.vets = vets if vets is not None else VETS
        self.appointments = appointments if appointments is not None else APPOINTMENTS
        self.medicines = medicines if medicines is not None else MEDICINES
        self.bills = bills if bills is not None else {"O-12": 85.0, "O-14": 30.0}
        self.next_id = next_id

    def find_pets(self, species: Literal["dog", "cat", "rabbit", "bird"]) -> list[Record]:
        """List all patients of one species.

        Args:
            species: Which kind of animal.
        """
        return [
            {"pet_id": key, "name": pet["name"]}
            for key, pet in self.pets.items()
            if pet["species"] == species
        ]

    def get_pet(self, pet_id: str) -> Record:
        """Look up the file of a pet.

        Args:
            pet_id: The pet's number.
        """
        if pet_id not in self.pets:
            raise KeyError(f"no pet {pet_id}")
        return {"pet_id": pet_id, **self.pets[pet_id]}

    def register_pet(
        self, owner_id: str, name: str, species: Literal["dog", "cat", "rabbit", "bird"]
    ) -> Record:
        """Register a new pet for an owner.

        Args:
            owner_id: Who the animal belongs to.
            name: What it is called.
            species: Which kind of animal.
        """
        if owner_id not in self.owners:
            raise KeyError(f"no owner {owner_id}")
        pet_id = f"P-{self._next()}"
        self.pets[pet_id] = {"name": name, "species": species, "owner_id": owner_id}
        return {"pet_id": pet_id, "owner": self.owners[owner_id]["name"]}

    def list_appointments(self, day: str) -> list[Record]:
        """List the appointments on a day.

        Args:
            day: Date as YYYY-MM-DD.
        """
        return [
            {"appointment_id": key, "pet_id": a["pet_id"], "time": a["time"]}
            for key, a in self.appointments.items()
            if a["day"] == day and a["status"] == "booked"
        ]

    def book_appointment(
        self, pet_id: str, vet_id: str, day: str, time: str, reason: str = "check-up"
    ) -> Record:
        """Book an appointment for a pet with a vet.

        Args:
            pet_id: Which pet is seen.
            vet_id: Which vet sees it.
            day: Date as YYYY-MM-DD.
            time: Time as HH:MM.
            reason: Why the pet comes.
        """
        self.get_pet(pet_id)
        if vet_id not in self.vets:
            raise KeyError(f"no vet {vet_id}")
        for a in self.appointments.values():
            if (a["vet_id"], a["day"], a["time"]) == (vet_id, day, time):
                raise ValueError(f"{vet_id} is busy on {day} at {time}")
        appointment_id = f"A-{self._next()}"
        self.appointments[appointment_id] = {
            "pet_id": pet_id,
            "vet_id": vet_id,
            "day": day,
            "time": time,
            "reason": reason,
            "status": "booked",
        }
        return {"appointment_id": appointment_id, "day": day, "time": time}

    def reschedule_appointment(self, appointment_id: str, day: str, time: str) -> Record:
        """Move an appointment to another day and time.

        Args:
            appointment_id: Which appointment.
            day: New date as YYYY-MM-DD.
            time: New time as HH:MM.
        """
        a = self._appointment(appointment_id)
        a["day"], a["time"] = day, time
        return {"appointment_id": appointment_id, "day": day, "time": time}

    def cancel_appointment(self, appointment_id: str) -> Record:
        """Cancel an appointment.

        Args:
            appointment_id: Which appointment.
        """
        a = self._appointment(appointment_id)
        a["status"] = "cancelled"
        return {"appointment_id": appointment_id, "status": "cancelled"}

    def record_weight(self, pet_id: str, weight_kg: float) -> Record:
        """Record the weight of a pet.

        Args:
            pet_id: Which pet.
            weight_kg: Its weight in kilograms.
        """
        if not 0.05 <= weight_kg <= 120:
            raise ValueError("that weight cannot be right")
        before = self.get_pet(pet_id).get("weight_kg")
        self.pets[pet_id]["weight_kg"] = weight_kg
        return {"pet_id": pet_id, "before": before, "now": weight_kg}

    def prescribe(self, pet_id: str, medicine: str, tablets: int) -> Record:
        """Prescribe a medicine for a pet and bill its owner.

        Args:
            pet_id: Which pet.
            medicine: Name of the medicine.
            tablets: How many tablets.
        """
        pet = self.get_pet(pet_id)
        if medicine not in self.medicines:
            raise KeyError(f"no medicine {medicine}")
        if tablets > self.medicines[medicine]["stock"]:
            raise ValueError(f"only {self.medicines[medicine]['stock']} tablets are left")
        self.medicines[medicine]["stock"] -= tablets
        cost = round(tablets * self.medicines[medicine]["price"], 2)
        owner = pet["owner_id"]
        self.bills[owner] = round(self.bills.get(owner, 0.0) + cost, 2)
        return {"cost": cost, "left": self.medicines[medicine]["stock"]}

    def get_balance(self, owner_id: str) -> Record:
        """Show how much an owner owes.

        Args:
            owner_id: The owner's number.
        """
        if owner_id not in self.owners:
            raise KeyError(f"no owner {owner_id}")
        return {"owner_id": owner_id, "due": self.bills.get(owner_id, 0.0)}

    def take_payment(self, owner_id: str, amount: float) -> Record:
        """Take a payment from an owner.

        Args:
            owner_id: Who pays.
            amount: How much, in euros.
        """
        due = self.get_balance(owner_id)["due"]
        if not 0 < amount <= due:
            raise ValueError(f"{owner_id} owes {due}")
        self.bills[owner_id] = round(due - amount, 2)
        return {"owner_id": owner_id, "paid": amount, "due": self.bills[owner_id]}

    def _appointment(self, appointment_id: str) -> Record:
        a = self.appointments.get(appointment_id)
        if a is None or a["status"] != "booked":
            raise KeyError(f"no booked appointment {appointment_id}")
        return a

    def _next(self) -> int:
        self.next_id += 1
        return self.next_id


clinic = ToolClasses("vet_clinic", [VetClinic])
