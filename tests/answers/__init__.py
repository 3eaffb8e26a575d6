"""What learners write: the wrong answers that checks know by name, as source code, a module a notebook."""
