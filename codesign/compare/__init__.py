"""Networks on machines side by side, and what changing one thing of a machine would bring."""
