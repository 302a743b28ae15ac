"""Trust: which parts of a config execute something, and which of them its user has allowed (docs/explanation/trust.md).

``parts`` says what a part is and how its digest is made, ``records`` keeps what the user allowed, ``decision`` decides.
"""
