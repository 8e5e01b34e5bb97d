(* Page 6: Random projections of attention (Proposition 6.15) *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import definitions identities random_projections random_projections_3.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* Proposition 6.15 (Families): E [R^T R] = I. First the families with independent entries. *)
Section Entries.
Variables (F : realFieldType) (Om : Type) (E : (Om -> F) -> F) (k n : nat).
Variables (R : Om -> 'M[F]_(k, n)) (kappa : F).
Hypotheses (ME : Mean.is_mean E) (k0 : (0 < k)%N).
(* The mean of a random matrix, entry by entry. *)
Definition mean_matrix (M : Om -> 'M[F]_n) : 'M[F]_n := \matrix_(i, j) E (fun o => M o i j).
Lemma entries_identity : Mean.independent E R -> Mean.moments E R kappa ->
  mean_matrix (fun o => (R o)^T *m R o) = 1%:M.
Proof. by move=> ind mo; apply/matrixP => i j; rewrite !mxE (Mean.second ME k0 ind mo). Qed.
(* Gaussian: only kappa = 3 is asked for. *)
Theorem kappa3_identity : Kappa3.kappa3_entries E R ->
  mean_matrix (fun o => (R o)^T *m R o) = 1%:M.
Proof.
move=> g; have [ind _] := g; have mo := Kappa3.kappa3_moments g.
by apply/matrixP => i j; rewrite !mxE (Mean.second ME k0 ind mo).
Qed.
End Entries.

Section Signs.
Variables (F : rcfType) (k n : nat).
Hypothesis k0 : (0 < k)%N.
(* Rademacher. *)
Theorem rademacher_identity : let R := @Finite.rademacher F k n in
  mean_matrix (expectation (@Finite.sign_chance F)) (fun o => (R o)^T *m R o) = 1%:M.
Proof.
move=> R; have ind := Finite.independent_entries (k := k) (n := n) (@Finite.sign_value F k)
  (Finite.sign_sum F).
have me := Finite.is_mean_mean k n (Finite.sign_sum F).
by apply: (entries_identity me k0 ind); apply: Finite.sign_moments.
Qed.
(* Achlioptas. *)
Theorem achlioptas_identity : let R := @Finite.achlioptas F k n in
  mean_matrix (expectation (@Finite.ach_chance F)) (fun o => (R o)^T *m R o) = 1%:M.
Proof.
move=> R; have ind := Finite.independent_entries (k := k) (n := n) (@Finite.ach_value F k)
  (Finite.ach_sum F).
have me := Finite.is_mean_mean k n (Finite.ach_sum F).
by apply: (entries_identity me k0 ind); apply: Finite.ach_moments.
Qed.
End Signs.

(* Sparse and SRHT: all draws are equally likely, each column has norm 1, and with a draw comes the
   one with the opposite signs in column j. *)
Section Flips.
Variables (F : realFieldType) (Om : finType) (k n : nat) (R : Om -> 'M[F]_(k, n)).
Variable flip : 'I_n -> Om -> Om.
Hypotheses (some : (0 < #|Om|)%N) (flipK : forall j, involutive (flip j)).
Hypothesis flipE : forall j o a i, R (flip j o) a i = if i == j then - R o a i else R o a i.
Hypothesis unit : forall o i, \sum_a R o a i ^+ 2 = 1.
Lemma flips_identity : mean_matrix (@mean F Om) (fun o => (R o)^T *m R o) = 1%:M.
Proof.
have N0 : #|Om|%:R != 0 :> F by rewrite pnatr_eq0 -lt0n.
apply/matrixP => i j; rewrite !mxE /mean.
have RE o : ((R o)^T *m R o) i j = \sum_a R o a i * R o a j.
  by rewrite mxE; apply: eq_bigr => a _; rewrite mxE.
rewrite (eq_bigr _ (fun o _ => RE o)); have [<-|ij] := eqVneq i j.
  rewrite (eq_bigr (fun=> 1)) => [|o _]; first by rewrite sumr_const divff.
  by rewrite -[RHS](unit o i); apply: eq_bigr => a _; rewrite expr2.
(* the sum over all draws is its own opposite *)
set S := \sum_o _; suff -> : S = 0 by rewrite mul0r.
have : S = - S.
  rewrite {1}/S (reindex_inj (can_inj (flipK j))) /= /S -sumrN; apply: eq_bigr => o _.
  by rewrite -sumrN; apply: eq_bigr => a _; rewrite !flipE (negbTE ij) eqxx mulrN.
by move/eqP; rewrite -subr_eq0 opprK -mulr2n mulrn_eq0 => /eqP.
Qed.
End Flips.

Section Sparse.
Variables (F : rcfType) (k n s : nat).
Hypotheses (s0 : (0 < s)%N) (sk : (s <= k)%N).
Local Notation sgn := (@sgn F).
Lemma sgn2 b : sgn b ^+ 2 = 1. Proof. by case: b; rewrite /sgn ?sqrrN expr1n. Qed.
(* A column: s distinct rows, and a sign for each row. *)
Definition rows := {A : {set 'I_k} | #|A| == s}.
Definition sparse_draw := ({ffun 'I_n -> rows} * {ffun 'I_n * 'I_k -> bool})%type.
Definition sparse (o : sparse_draw) : 'M[F]_(k, n) :=
  \matrix_(a, i) ((a \in val (o.1 i))%:R * sgn (o.2 (i, a)) / Num.sqrt s%:R).
Definition sparse_flip (j : 'I_n) (o : sparse_draw) : sparse_draw :=
  (o.1, [ffun x => o.2 x (+) (x.1 == j)]).
Theorem sparse_identity : mean_matrix (@mean F _) (fun o => (sparse o)^T *m sparse o) = 1%:M.
Proof.
apply: (@flips_identity _ _ _ _ _ sparse_flip) => [|j o|j o a i|o i].
- (* there is a draw *)
  have [A As] : exists A : {set 'I_k}, #|A| == s.
    exists [set a : 'I_k | (a < s)%N]; rewrite -sum1dep_card.
    by rewrite -(big_ord_widen k (fun=> 1%N) sk) sum1_card card_ord.
  by apply/card_gt0P; exists ([ffun=> exist _ A As], [ffun=> true]).
- case: o => A e; congr (_, _); apply/ffunP => x; by rewrite !ffunE addbK.
- rewrite !mxE ffunE /=; case: (i == j); rewrite ?addbF // addbT.
  by case: (o.2 (i, a)); rewrite /sgn /= ?mulrN ?mulNr ?opprK.
have sR : s%:R != 0 :> F by rewrite pnatr_eq0 -lt0n.
transitivity (\sum_(a in val (o.1 i)) (s%:R^-1 : F)).
  rewrite [RHS]big_mkcond; apply: eq_bigr => a _.
  rewrite mxE !exprMn exprVn sqr_sqrtr ?ler0n // sgn2 mulr1.
  by case: (_ \in _); rewrite ?expr1n ?mul1r // expr0n mul0r.
by rewrite sumr_const (eqP (valP (o.1 i))) -[_ *+ s]mulr_natl divff.
Qed.
End Sparse.

Section SRHT.
(* H is any N x N matrix of signs (a Hadamard matrix is one); n <= N columns of it are used, as x is
   padded with zeros. *)
Variables (F : rcfType) (k n N : nat) (H : 'M[F]_N).
Hypotheses (k0 : (0 < k)%N) (kN : (k <= N)%N) (nN : (n <= N)%N).
Hypothesis signs : forall a i, H a i = 1 \/ H a i = -1.
(* k different rows of H, and a sign for each column. *)
Definition srht_draw := ({f : {ffun 'I_k -> 'I_N} | injectiveb f} * {ffun 'I_n -> bool})%type.
Definition srht (o : srht_draw) : 'M[F]_(k, n) :=
  \matrix_(a, i) (H (val o.1 a) (widen_ord nN i) * sgn F (o.2 i) / Num.sqrt k%:R).
Definition srht_flip (j : 'I_n) (o : srht_draw) : srht_draw := (o.1, [ffun i => o.2 i (+) (i == j)]).
Theorem srht_identity : mean_matrix (@mean F _) (fun o => (srht o)^T *m srht o) = 1%:M.
Proof.
apply: (@flips_identity _ _ _ _ _ srht_flip) => [|j o|j o a i|o i].
- have fI : injectiveb [ffun a : 'I_k => widen_ord kN a].
    by apply/injectiveP => a b; rewrite !ffunE => /(congr1 val)/= e; apply: val_inj.
  pose f : {f : {ffun 'I_k -> 'I_N} | injectiveb f} :=
    exist (fun f : {ffun 'I_k -> 'I_N} => injectiveb f) _ fI.
  by apply/card_gt0P; exists (f, [ffun=> true]).
- case: o => f e; congr (_, _); apply/ffunP => x; by rewrite !ffunE addbK.
- rewrite !mxE ffunE /=; case: (i == j); rewrite ?addbF // addbT.
  by case: (o.2 i); rewrite /sgn /= ?mulrN ?mulNr ?opprK.
have kR : k%:R != 0 :> F by rewrite pnatr_eq0 -lt0n.
rewrite (eq_bigr (fun=> k%:R^-1)) => [|a _].
  by rewrite sumr_const card_ord -[_ *+ k]mulr_natl divff.
rewrite mxE !exprMn exprVn sqr_sqrtr ?ler0n // sgn2 mulr1.
by case: (signs (val o.1 a) (widen_ord nN i)) => ->; rewrite ?sqrrN expr1n mul1r.
Qed.
End SRHT.
(* Instance: the Hadamard matrix of two tokens; one of its rows is drawn. *)
Example two_tokens (F : rcfType) :
  let H := \matrix_(a < 2, i < 2) (if (a == 1) && (i == 1) then -1 else 1) : 'M[F]_2 in
  mean_matrix (@mean F _) (fun o => (srht H (leqnn 2) o)^T *m srht (k := 1) H (leqnn 2) o) = 1%:M.
Proof.
by move=> H; apply: srht_identity => // a i; rewrite mxE; case: ifP; [right | left].
Qed.
