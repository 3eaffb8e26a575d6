"""What runs in the browser: live plots, accessibility, lecture mode."""
