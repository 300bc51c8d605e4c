"""Appointments of a dental clinic: pydantic models, enumerations, days, objects as arguments."""

from __future__ import annotations

from datetime import date, time
from enum import Enum

from pydantic import BaseModel, Field

from rods.envs.tool_classes import ToolClasses


class Treatment(str, Enum):  # noqa: UP042 - as a stranger wrote it
    checkup = "checkup"
    cleaning = "cleaning"
    filling = "filling"
    root_canal = "root canal"


class Urgency(Enum):
    routine = "routine"
    soon = "soon"
    emergency = "emergency"


class Contact(BaseModel):
    phone: str
    email: str | None = None


class Patient(BaseModel):
    patient_id: str
    name: str
    born: date
    contact: Contact
    allergies: list[str] = Field(default_factory=list)


class Slot(BaseModel):
    day: date
    start: time
    dentist: str


class Appointment(BaseModel):
    appointment_id: str
    patient_id: str
    slot: Slot
    treatment: Treatment
    urgency: Urgency = Urgency.routine
    confirmed: bool = False


class Clinic:
    def __init__(
        self,
        patients: list[dict] | None = None,
        slots: list[dict] | None = None,
        appointments: list[dict] | None = None,
        today: str = "2025-05-05",
    ):
        self.patients = {p["patient_id"]: Patient(**p) for p in patients or []}
        self.slots = [Slot(**s) for s in slots or []]
        self.appointments = {a["appointment_id"]: Appointment(**a) for a in appointments or []}
        self.today = date.fromisoformat(today)

    def search_patient(self, name: str) -> list[dict]:
        """Search a patient by name.

        Args:
            name: Full name or a part of it.
        """
        return [
            p.model_dump(mode="json")
            for p in self.patients.values()
            if name.lower() in p.name.lower()
        ]

    def register_patient(self, name: str, born: str, contact: dict) -> str:
        """Register a new patient.

        Args:
            name: Full name.
            born: Date of birth.
            contact: How to reach the patient.

        Returns:
            The id of the patient.
        """
        patient_id = f"P{len(self.patients) + 1:03d}"
        self.patients[patient_id] = Patient(
            patient_id=patient_id, name=name, born=born, contact=contact
        )
        return patient_id

    def list_free_slots(self, dentist: str | None = None, day: str | None = None) -> list[dict]:
        """List the free slots of the clinic.

        Args:
            dentist: Only slots of this dentist.
            day: Only slots on this day.
        """
        return [
            s.model_dump(mode="json")
            for s in self.slots
            if (dentist is None or s.dentist == dentist)
            and (day is None or s.day == date.fromisoformat(day))
        ]

    def book_appointment(
        self, patient_id: str, slot: dict, treatment: Treatment, urgency: Urgency = Urgency.routine
    ) -> dict:
        """Book an appointment for a patient.

        Args:
            patient_id: The patient, such as P002.
            slot: A free slot.
            treatment: What is to be done.
            urgency: How urgent it is.
        """
        if patient_id not in self.patients:
            raise KeyError(f"unknown patient {patient_id}")
        slot = Slot(**slot)
        if slot not in self.slots:
            raise ValueError("this slot is not free")
        self.slots.remove(slot)
        appointment_id = f"A{len(self.appointments) + 1:03d}"
        self.appointments[appointment_id] = Appointment(
            appointment_id=appointment_id,
            patient_id=patient_id,
            slot=slot,
            treatment=treatment,
            urgency=urgency,
        )
        return {"appointment_id": appointment_id, "dentist": slot.dentist}

    def reschedule_appointment(self, appointment_id: str, slot: dict) -> dict:
        """Move an appointment to another slot.

        Args:
            appointment_id: The appointment, such as A001.
            slot: The new slot.
        """
        appointment = self.appointments[appointment_id]
        slot = Slot(**slot)
        if slot not in self.slots:
            raise ValueError("this slot is not free")
        self.slots.remove(slot)
        self.slots.append(appointment.slot)
        appointment.slot = slot
        return appointment.model_dump(mode="json")

    def cancel_appointment(self, appointment_id: str) -> dict:
        """Cancel an appointment.

        Args:
            appointment_id: The appointment, such as A001.
        """
        appointment = self.appointments.pop(appointment_id)
        self.slots.append(appointment.slot)
        return {"cancelled": appointment_id}

    def confirm_appointment(self, appointment_id: str) -> dict:
        """Confirm an appointment.

        Args:
            appointment_id: The appointment, such as A001.
        """
        self.appointments[appointment_id].confirmed = True
        return {"appointment_id": appointment_id, "confirmed": True}

    def appointments_of(self, patient_id: str) -> list[dict]:
        """Get all appointments of a patient.

        Args:
            patient_id: The patient, such as P002.
        """
        return [
            a.model_dump(mode="json")
            for a in self.appointments.values()
            if a.patient_id == patient_id
        ]

    def record_allergies(self, patient_id: str, allergies: list[str]) -> dict:
        """Record allergies of a patient.

        Args:
            patient_id: The patient, such as P002.
            allergies: Substances that the patient cannot take.
        """
        patient = self.patients[patient_id]
        patient.allergies.extend(allergies)
        return {"patient_id": patient_id, "allergies": patient.allergies}

    def update_contact(self, patient_id: str, contact: dict) -> dict:
        """Update the contact data of a patient.

        Args:
            patient_id: The patient, such as P002.
            contact: The new contact data.
        """
        self.patients[patient_id].contact = Contact(**contact)
        return {"patient_id": patient_id}


environment = ToolClasses("clinic", [Clinic])
