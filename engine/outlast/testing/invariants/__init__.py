"""What must hold in a database at any moment, one module for each noun."""
