"""The study `template_name`: an example that works; every line marked ← is its own, and to be changed."""

from workbench.studies import Higher, Study
from workbench.studies.figures import by_group
from workbench.studies.measures import Logged

VARIANTS = [{"name": "chacal", "preset": "chain-chacal"}, {"name": "standard", "preset": "chain-standard"}]  # ←
STUDIES = {
    "template_name": Study(
        question="Does ChaCAL learn short chains better than standard attention in as many steps?",  # ←
        runs={"small": {"settings": {"steps": 200, "task": {"n": 16, "k": 4}}, "variants": VARIANTS}},  # ←
        measure=Logged(("accuracy",)),  # ←
        contrasts=[Higher("accuracy", "chacal", "standard")],  # ←
        draw=lambda groups: by_group(groups, "accuracy", "Short chains: accuracy after 200 steps"),  # ←
    )
}
