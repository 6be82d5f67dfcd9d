# The public names of `asyncsim.components`, listed once, as in `asyncsim/__init__.pyi`.

from ._address import fields as fields
from ._address import override as override
from ._component import Component as Component
from ._component import static as static
from ._description import NotRebuilt as NotRebuilt
from ._description import describe as describe
from ._description import from_description as from_description
from ._digest import REVISION as REVISION
from ._digest import digest as digest
from ._environment import JAX_SETTINGS as JAX_SETTINGS
from ._families import built_in_classes as built_in_classes
from ._field import Field as Field
from ._traced import Traced as Traced
