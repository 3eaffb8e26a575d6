"""The course for others: JupyterLab, the app, the static site, the check of an installation."""
