(* Page 11: What is enough (Proposition 11.7) *)
From mathcomp Require Import all_ssreflect all_fingroup all_algebra.
Require Import definitions identities price_of_dimension_2 price_of_dimension_4.
Import Keys.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* Polynomials in the variables V, their degrees and values. *)
Section Polynomials.
Variables (R : realFieldType) (V : finType).
Inductive polynomial :=
  Var of V | Cst of R | Add of polynomial & polynomial | Mul of polynomial & polynomial.
Fixpoint degree f : nat := match f with
  | Var _ => 1 | Cst _ => 0 | Add f g => maxn (degree f) (degree g) | Mul f g => degree f + degree g
  end.
Fixpoint value (x : V -> R) f := match f with
  | Var v => x v | Cst a => a | Add f g => value x f + value x g | Mul f g => value x f * value x g
  end.
End Polynomials.

Section Counting.
Variable R : archiFieldType.
(* e is the least upper bound of (1 + 1/m)^m; here any upper bound. *)
Variable e : R.
Hypothesis e_bound : forall m, (0 < m)%N -> (m.+1%:R / m%:R) ^+ m <= e.
(* Warren's bound (1968, recalled): M >= N polynomials of degree at most D >= 1 in N >= 1 variables
   have at most (4 e D M / N)^N patterns of signs without zeros. *)
Definition warren := forall (V J : finType) D (f : J -> polynomial R V) (A : {set {ffun J -> bool}}),
  (0 < #|V| <= #|J|)%N -> (0 < D)%N -> (forall j, (degree (f j) <= D)%N) ->
  (forall s, s \in A -> exists x : V -> R, forall j : J,
    if s j then 0 < value x (f j) else value x (f j) < 0) ->
  #|A|%:R <= (4%:R * e * D%:R * #|J|%:R / #|V|%:R) ^+ #|V|.
Hypothesis recalled : warren.

Lemma e_ge1 : 1 <= e.
Proof.
apply: le_trans (e_bound (ltn0Sn 0)); by rewrite expr1 divr1 ler1n.
Qed.
(* m! >= (m / e)^m *)
Lemma factorial m : (m%:R / e) ^+ m <= m`!%:R.
Proof.
have e0 : 0 < e by apply: lt_le_trans e_ge1; exact: ltr01.
elim: m => [|m IH]; first by rewrite expr0.
have [->|m0] := posnP m; first by rewrite expr1 ler_pdivr_mulr // mul1r e_ge1.
have mR : 0 < m%:R :> R by rewrite ltr0n.
rewrite factS natrM exprS; have -> : (m.+1%:R / e) ^+ m = (m%:R / e) ^+ m * (m.+1%:R / m%:R) ^+ m.
  by rewrite -exprMn; congr (_ ^+ _); rewrite mulrAC mulrA [m%:R * _]mulrC mulfK ?gt_eqF.
rewrite -mulrA [e^-1 * _]mulrC mulrA ler_pdivr_mulr // -!mulrA ler_wpmul2l ?ler0n //.
rewrite ler_pmul ?exprn_ge0 ?divr_ge0 ?ler0n ?(ltW e0) //; exact: e_bound.
Qed.

Section Patterns.
(* n = k b tokens, numbered by pairs. *)
Variables (k b d : nat).
Hypotheses (k0 : (0 < k)%N) (b0 : (0 < b)%N).
Definition token := [finType of 'I_k * 'I_b].
Let n := (k * b)%N.
Lemma card_token : #|token| = n. Proof. by rewrite card_prod !card_ord. Qed.
(* Patterns with k ones in each row and in each column; all are met in d dimensions. *)
Definition regular (S : token -> {set token}) :=
  (forall i, #|S i| = k) /\ forall j, #|[set i | j \in S i]| = k.
Hypothesis served : forall S, regular S -> met R S d.

(* Step 1. A permutation in each of k x k blocks is such a pattern. *)
Definition blocks := {ffun 'I_k * 'I_k -> {perm 'I_b}}.
Definition pattern (g : blocks) (i : token) : {set token} := [set j | j.2 == g (i.1, j.1) i.2].
Lemma pattern_regular g : regular (pattern g).
Proof.
split=> [[p u]|[q v]].
  have -> : pattern g (p, u) = [set (q, g (p, q) u) | q : 'I_k].
    apply/setP => -[q v]; rewrite inE /=; apply/eqP/imsetP => [->|[q' _ [-> ->]] //]; by exists q.
  by rewrite card_imset ?card_ord // => q q' [].
have -> : [set i | (q, v) \in pattern g i] = [set (p, (g (p, q))^-1%g v) | p : 'I_k].
  apply/setP => -[p u]; rewrite !inE /=; apply/eqP/imsetP => [->|[p' _ [-> ->]]].
    by exists p; rewrite ?permK.
  by rewrite permKV.
by rewrite card_imset ?card_ord // => p p' [].
Qed.
Definition signs_of (g : blocks) : {ffun token * token -> bool} := [ffun x => x.2 \in pattern g x.1].
Lemma signs_inj : injective signs_of.
Proof.
move=> g h /ffunP eq; apply/ffunP => -[p q]; apply/permP => u; apply/eqP.
have := eq ((p, u), (q, g (p, q) u)); by rewrite !ffunE !inE /= eqxx => <-.
Qed.

(* Step 2. Its signs are those of n^2 polynomials q_i . k_j - c_i in n (2d + 1) variables. *)
Definition variable := [finType of (token * 'I_d) + ((token * 'I_d) + token)].
Lemma card_variable : #|variable| = (n * (2 * d).+1)%N.
Proof.
by rewrite !card_sum !card_prod !card_ord -/n addnA addnn -mul2n mulnS addnC mulnCA mulnA.
Qed.
Definition logit (x : token * token) : polynomial R variable :=
  Add (\big[@Add R variable/Cst _ 0]_(c < d) Mul (Var _ (inl (x.1, c))) (Var _ (inr (inl (x.2, c)))))
      (Mul (Cst _ (-1)) (Var _ (inr (inr x.1)))).
Lemma logit_degree x : (degree (logit x) <= 2)%N.
Proof.
rewrite /logit /= geq_max andbT; elim/big_rec: _ => //= c f _ df.
by rewrite geq_max df.
Qed.
Lemma logit_value v (x : token * token) : value v (logit x) =
  (\sum_c v (inl (x.1, c)) * v (inr (inl (x.2, c)))) - v (inr (inr x.1)).
Proof.
rewrite /= mulN1r; congr (_ - _); elim/big_rec2: _ => //= c f y _ ->; by [].
Qed.
(* Proposition 11.7 (Counting signs), (11.4): with exponentials in place of logarithms. *)
Theorem counting_signs : (n < (2 * d).+1)%N \/
  (n%:R / (e * k%:R)) ^+ k <= (8%:R * e * n%:R / (2 * d).+1%:R) ^+ (2 * d).+1.
Proof.
have [dn|] := leqP (2 * d).+1 n; [right | by left].
have n0 : (0 < n)%N by rewrite muln_gt0 k0.
have e0 : 0 < e by apply: lt_le_trans e_ge1; exact: ltr01.
pose A := signs_of @: [set: blocks].
have room : (0 < #|variable| <= #|[finType of token * token]|)%N.
  by rewrite card_variable card_prod card_token muln_gt0 n0 /= leq_pmul2l.
have attained s : s \in A -> exists v : variable -> R, forall x : [finType of token * token],
    if s x then 0 < value v (logit x) else value v (logit x) < 0.
  case/imsetP => g _ ->; have /met_affine[key sp] := served (pattern_regular g).
  have /fin_all_exists[q /fin_all_exists[c qc]] := sp.
  exists (fun y => match y with inl (i, l) => q i 0 l | inr (inl (j, l)) => key j 0 l
    | inr (inr i) => c i end) => -[i j]; rewrite logit_value ffunE /=.
  exact: (qc i j).
have W := @recalled variable [finType of token * token] 2%N logit A room isT logit_degree attained.
have cardA : #|A| = (b`! ^ (k * k))%N.
  by rewrite card_imset ?cardsT ?card_ffun ?card_prod ?card_ord ?card_Sn //; exact: signs_inj.
move: W; rewrite cardA card_variable card_prod card_token.
set X := (8%:R * e * n%:R / (2 * d).+1%:R) => W.
have nR : n%:R != 0 :> R by rewrite pnatr_eq0 -lt0n.
have DR : (2 * d).+1%:R != 0 :> R by rewrite pnatr_eq0.
have XE : 4%:R * e * 2%:R * (n * n)%:R / (n * (2 * d).+1)%:R = X.
  apply/eqP; rewrite /X eqr_div ?mulf_neq0 //; last by rewrite pnatr_eq0 -lt0n muln_gt0 n0.
  rewrite [(n * n)%:R]natrM [(n * _.+1)%:R]natrM; apply/eqP.
  by move: (n%:R) ((2 * d).+1%:R) => N D; ident.
have X0 : 0 <= X by rewrite divr_ge0 ?mulr_ge0 ?ler0n ?(ltW e0).
rewrite XE in W; clearbody X.
have bk : n%:R / (e * k%:R) = b%:R / e.
  have kR : k%:R != 0 :> R by rewrite pnatr_eq0 -lt0n.
  have nE : n%:R = k%:R * b%:R :> R by rewrite -natrM.
  have en : e != 0 := lt0r_neq0 e0.
  apply/eqP; rewrite eqr_div ?mulf_neq0 //; apply/eqP.
  by rewrite [in LHS]nE [k%:R * _]mulrC -mulrA [k%:R * e]mulrC.
(* ((b / e)^k)^n <= b!^(k k) <= (X^(2d+1))^n *)
have be0 : 0 <= b%:R / e by rewrite divr_ge0 ?ler0n ?(ltW e0).
rewrite bk -(@ler_pexpn2r _ n) ?nnegrE ?exprn_ge0 //.
rewrite -!exprM [((2 * d).+1 * n)%N]mulnC; apply: le_trans W.
have -> : (k * n)%N = (b * (k * k))%N by rewrite /n mulnA [RHS]mulnC.
rewrite exprM natrX; apply: ler_expn2r; rewrite ?nnegrE ?exprn_ge0 ?ler0n //.
exact: factorial.
Qed.
End Patterns.

(* Proposition 11.7, last sentence: d >= (k - 1)/2 for fixed k and large n. *)
Theorem large_n k : (0 < k)%N -> exists N, forall b d, (N <= k * b)%N ->
  (forall S : token k b -> {set token k b}, regular S -> met R S d) -> (k <= (2 * d).+1)%N.
Proof.
move=> k0; have e0 : 0 < e by apply: lt_le_trans e_ge1; exact: ltr01.
pose C := e ^+ k * (8%:R * e * k%:R) ^+ k.-1.
exists (k * (Num.bound C).+1)%N => b d; rewrite leq_pmul2l // => Nb served.
have b0 : (0 < b)%N by exact: leq_ltn_trans Nb.
rewrite leqNgt; apply/negP => dk; have kR : 0 < k%:R :> R by rewrite ltr0n.
have bR : 1 <= b%:R :> R by rewrite ler1n.
have [|] := counting_signs k0 b0 served.
  by rewrite ltnNge (leq_trans (ltnW dk)) // leq_pmulr.
rewrite natrM [e * _]mulrC -mulf_div divff ?gt_eqF // mul1r => low.
have C0 : 0 <= C by rewrite mulr_ge0 ?exprn_ge0 ?mulr_ge0 ?ler0n ?(ltW e0).
have lt : C < b%:R.
  by apply: lt_le_trans (archi_boundP C0) _; rewrite ler_nat ltnW.
(* b^k <= e^k (8 e k b)^(k - 1) = C b^(k - 1) *)
have base : 1 <= 8%:R * e * (k%:R * b%:R).
  by rewrite !mulr_ege1 ?e_ge1 ?ler1n.
have up : (8%:R * e * (k%:R * b%:R) / (2 * d).+1%:R) ^+ (2 * d).+1 <=
    (8%:R * e * (k%:R * b%:R)) ^+ k.-1.
  apply: le_trans (_ : (8%:R * e * (k%:R * b%:R)) ^+ (2 * d).+1 <= _).
    apply: ler_expn2r; rewrite ?nnegrE ?divr_ge0 ?ler0n ?(le_trans ler01 base) //.
    by rewrite ler_pdivr_mulr ?ltr0n // ler_pmulr ?(lt_le_trans ltr01 base) // ler1n.
  by apply: ler_weexpn2l => //; rewrite -ltnS prednK.
have b1 : 0 < b%:R ^+ k.-1 :> R by rewrite exprn_gt0 // (lt_le_trans ltr01).
have CE : (8%:R * e * (k%:R * b%:R)) ^+ k.-1 * e ^+ k = C * b%:R ^+ k.-1.
  by rewrite (mulrA (8%:R * e)) exprMn /C [LHS]mulrC [LHS]mulrA.
have := le_trans low up; rewrite expr_div_n ler_pdivr_mulr ?exprn_gt0 // CE.
by rewrite -{1}(prednK k0) exprS ler_pmul2r // leNgt lt.
Qed.
End Counting.
(* Instance: the identity of two tokens, k = 1, is one of the patterns. *)
Example two_tokens : regular (pattern ([ffun=> 1%g] : blocks 1 2)).
Proof. exact: pattern_regular. Qed.
