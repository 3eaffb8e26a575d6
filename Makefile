# `make` alone lists the targets. Everything happens in .venv; nothing is registered outside this folder.

.DEFAULT_GOAL := help
.PHONY: help lab lecture app site test unit bench travel soak doctor data format clean

# Any Python 3 runs tools/bootstrap.py, which looks for one that is new enough. PYTHON names one by hand.
BOOTSTRAP = for python in "$${PYTHON:-python3}" python3 python python3.14 python3.13 python3.12 python3.11; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 7))' 2>/dev/null && exec "$$python" tools/bootstrap.py $(1); \
	done; echo "No Python was found. Install Python 3.11 or newer, then run the same command again." >&2; exit 1
RUN = .venv/bin/python

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /  make \1	/p' Makefile | expand -t 16

lab: ## set up what is missing and open the course in JupyterLab
	@$(call BOOTSTRAP)
	@$(RUN) -m lntutor lab

lecture: ## open the course for a lecture: large type, ready to present
	@$(call BOOTSTRAP)
	@$(RUN) -c "import jupyterlab_slideshow" 2>/dev/null || $(RUN) -m pip install --quiet --disable-pip-version-check --no-build-isolation -e ".[slides]"
	@$(RUN) -m lntutor lab --lecture

app: ## show every explorer and notebook as a page without code, for this machine alone
	@$(call BOOTSTRAP)
	@$(RUN) -m lntutor app

site: ## make static pages in site/ that open from disk: no network, no Python
	@$(call BOOTSTRAP)
	@$(RUN) -m lntutor site

test: ## lint and run every test: units, notebooks, a real browser
	@$(call BOOTSTRAP,--dev)
	@$(RUN) tools/install_browser.py
	@$(RUN) tools/check.py

unit: ## lint and run the quick tests only
	@$(call BOOTSTRAP,--dev)
	@$(RUN) tools/check.py -m "not notebook and not browser"

bench: ## run every benchmark, one after the other
	@$(call BOOTSTRAP,--dev)
	@for script in benchmarks/[a-z]*.py; do echo "== $$script"; $(RUN) "$$script" || exit 1; done

travel: ## run every lesson again on other random numbers, on two threads and in float64: about an hour
	@$(call BOOTSTRAP)
	@$(RUN) tools/travel.py

soak: ## drive every explorer by random moves for half an hour, in process and in a page
	@$(call BOOTSTRAP,--dev)
	@$(RUN) tools/install_browser.py
	@$(RUN) tools/soak.py

doctor: ## check the installation, one line per finding
	@$(call BOOTSTRAP)
	@$(RUN) -m lntutor doctor

data: ## list the corpora, where they are, and how to get others
	@$(call BOOTSTRAP)
	@$(RUN) -m lntutor data

format: ## mend lint and format where that can be done by a tool
	@$(call BOOTSTRAP,--dev)
	@$(RUN) -m ruff check --fix .
	@$(RUN) -m ruff format .

clean: ## remove .venv, caches and test screenshots
	@rm -rf .venv build dist *.egg-info site .pytest_cache .ruff_cache .hypothesis tests/browser/screenshots
	@find . -type d \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} +
