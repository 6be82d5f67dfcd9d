# The public names of `asyncsim.calibration`, listed once, as in `asyncsim/__init__.pyi`.

from ._avo import Avo as Avo
from ._avo import avo as avo
from ._calibrate import calibrate as calibrate
from ._fit import Fit as Fit
from ._model import Model as Model
from ._model import Parameter as Parameter
from ._model import default_model as default_model
from ._model import ladder as ladder
from ._npe import Estimator as Estimator
from ._priors import LogUniform as LogUniform
from ._priors import Uniform as Uniform
from ._simulations import Simulations as Simulations
from ._statistics import Check as Check
from ._statistics import Checks as Checks
from ._steps import learn_posterior as learn_posterior
from ._steps import simulate_prior as simulate_prior
from ._steps import summarise as summarise
from ._what_if import what_if as what_if
