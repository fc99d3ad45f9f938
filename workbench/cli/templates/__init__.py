"""What `workbench new` writes: a small working part of each kind, with `template_name` in place of its name."""
