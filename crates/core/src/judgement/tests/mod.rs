mod bed;
mod budgets;
mod causes;
mod documents;
mod endings;
mod images;
mod properties;
